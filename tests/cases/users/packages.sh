#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: With apt, floop-drop-in changes drivers at once where no device is in
#   use, and at the next boot where one is. Removing it brings the kernel's
#   driver back. Both have the initramfs made anew. What is loaded is the module
#   that DKMS has built. An upgrade and a downgrade leave a device, its unit and
#   the loaded module alone. A new kernel, of the next series, gets its module
#   at its installation; its first boot attaches and mounts what /etc/flooptab
#   and fstab name, and the shutdown before has left file systems clean.
#   Removing floop detaches a device at its last user's close; with the drop-in,
#   those of /etc/flooptab. Purged, the packages leave no file.
# modes: drop-in
# machines: lts-drop-in
# init: systemd
# timeout: 600
# long: yes
# DKMS installs here what it has built before (machine/packages-module.sh):
# compiling would take the emulated machine many minutes, and is in
# tests/packages.
. tests/lib/users.sh

conf=/usr/lib/modprobe.d/floop-drop-in.conf
image=/var/lib/packages.img
disk=${DISKS%% *}
host=/srv/host

kver=$(uname -r)
dkms=/lib/modules/$kver/updates/dkms/floop.ko.xz
debs=build/packages

# What the machine's own start puts where the packages put it. It does so at
# each boot.
own=(
	/lib/modules/*/updates/floop.ko
	/etc/udev/rules.d/60-floop.rules /usr/local/bin/floop
	/usr/lib/systemd/system/floop{-detach,@}.service
	/usr/sbin/mount.floop
	/usr/lib/systemd/system-generators/floop-generator
	/usr/lib/modprobe.d/floop-drop-in.conf
	/usr/lib/modules-load.d/floop-drop-in.conf
)

# The next kernel's files, until it is installed
away=/var/tmp/away

# own_away - take them away. DKMS removes a folder that is empty then
own_away() {
	rm -f "${own[@]}"
	rmdir --ignore-fail-on-non-empty /lib/modules/*/updates
}

# files - all names in /boot, /etc and /usr, and the packages' scripts
files() {
	find /boot /etc /usr /var/lib/dpkg/info /var/lib -xdev -mindepth 1 \
		-not -name '*.cache' -not -path '/etc/apt*' \
		-not -path '/var/lib/apt*' -not -path '/var/lib/dpkg/*' \
		-not -path '/var/lib/systemd*' -not -path "$WORK*" \
		-not -path $image | sort
}

other_kernel() {
	find "$1" -mindepth 1 -maxdepth 1 -printf '%f\n' | grep -vx "$kver"
}

hide_other_kernel() {
	local new
	new=$(other_kernel /lib/modules)
	mkdir -p $away/{boot,modules}
	mv /boot/*"-$new" $away/boot/
	mv "/lib/modules/$new" $away/modules/
}

# install_other_kernel - as its package does, with the hooks; the next boot is
# its
install_other_kernel() {
	local new
	new=$(other_kernel $away/modules)
	mv $away/boot/* /boot/
	mv $away/modules/* /lib/modules/
	tar -C /var/lib -xf "$debs/dkms-$new.tar"
	check "the hooks" env DEB_MAINT_PARAMS=configure run-parts \
		--exit-on-error --arg="$new" --arg="/boot/vmlinuz-$new" \
		/etc/kernel/postinst.d
	check "DKMS has installed the module" \
		test -e "/lib/modules/$new/updates/dkms/floop.ko.xz"
	check "load the new kernel" kexec --load "/boot/vmlinuz-$new" \
		--initrd="/boot/initrd.img-$new" --reuse-cmdline --append=rw
}

# attach_at_boot - two images of a file system of its own, one by /etc/flooptab
attach_at_boot() {
	local name
	mkfs.xfs -q -f "$disk"
	mkdir -p $host /srv/data /srv/image
	mount "$disk" $host
	mkdir "$WORK/tree"
	for name in data image; do
		noise "$WORK/tree/noise" 4
		sum_of "$WORK/tree/noise" >"$WORK/sum-$name"
		mkfs.ext4 -q -F -d "$WORK/tree" \
			"$(mkimage 32M "$host/$name.img")"
	done
	cat >>/etc/fstab <<-END
		UUID=$(blkid -s UUID -o value "$disk") $host xfs defaults 0 2
		/dev/floop/data /srv/data ext4 defaults 0 2
		$host/image.img /srv/image ext4 loop 0 0
	END
	echo "data $host/data.img" >/etc/flooptab
}

# attached_at_boot - they are mounted, by our driver, and were unmounted before
attached_at_boot() {
	local name
	is "the unit" "$(systemctl is-active floop@data.service)" active
	is "mounted by its name" "$(findmnt -n -o SOURCE /srv/data)" \
		"$(realpath /dev/floop/data)"
	ours "$(realpath /dev/floop/data)"
	ours "$(findmnt -n -o SOURCE /srv/image)"
	for name in data image; do
		is "what is in $name" "$(sum_of /srv/$name/noise)" \
			"$(<"$WORK/sum-$name")"
	done
	clean_boot "${disk#/dev/}"
}

# The repository's index, for want of dpkg-scanpackages
index() {
	local deb
	for deb in "$WORK"/repository/*.deb; do
		dpkg-deb -f "$deb"
		printf '%s\n' "Filename: ./${deb##*/}" \
			"Size: $(stat -c %s "$deb")" \
			"SHA256: $(sha256sum <"$deb" | cut -d ' ' -f 1)" ''
	done >"$WORK/repository/Packages"
}

# stub NAME PROVIDES - a package that stands for what DKMS needs to compile
stub() {
	mkdir -p "$WORK/$1/DEBIAN"
	cat >"$WORK/$1/DEBIAN/control" <<-END
		Package: $1
		Version: 1
		Architecture: all
		Maintainer: floop
		Provides: $2
		Description: stands for $2
	END
	dpkg-deb -b "$WORK/$1" "$WORK/repository/$1.deb"
}

# older - put version 0.0.9 of floop and of floop-dkms into the repository. Its
# module is 0.0, and has no signature, which wouldn't be right.
older() {
	local deb folder=$WORK/older
	for deb in dist/floop_*.deb dist/floop-dkms_*.deb; do
		rm -rf "$folder"
		dpkg-deb -R "$deb" "$folder"
		[ ! -d "$folder/usr/src" ] ||
			mv "$folder/usr/src/floop-$version" \
				"$folder/usr/src/floop-0.0.9"
		grep -rlIF "$version" "$folder" |
			xargs sed -i "s/$version/0.0.9/g"
		rm -f "$folder/DEBIAN/md5sums"
		dpkg-deb -Zgzip -z1 -b "$folder" "$WORK/repository"
	done
	folder=/var/lib/dkms/floop/0.0.9
	cp -a "/var/lib/dkms/floop/$version" $folder
	ln -sfn /usr/src/floop-0.0.9 $folder/source
	python3 - $folder/*/*/module/floop.ko.xz <<-END
		import lzma, re, sys
		file = sys.argv[1]
		with lzma.open(file) as module:
		    data = module.read()
		end = data.index(b"~Module signature appended~")
		size = int.from_bytes(data[end - 4 : end], "big")
		data = data[: end - 12 - size]
		data, times = re.subn(rb"(?<=\0version=floop )...", b"0.0",
		                      data)
		assert times == 1
		with lzma.open(file, "wb", check=lzma.CHECK_CRC32) as module:
		    module.write(data)
	END
}

# by_dkms - what is loaded is DKMS's module: its build ID is in the file
by_dkms() {
	is "the module's file" "$(modinfo -F filename floop)" "$dkms"
	check "what is loaded is it" python3 -c '
import lzma, sys
with open("/sys/module/floop/notes/.note.gnu.build-id", "rb") as note:
    note = note.read()
with lzma.open(sys.argv[1]) as module:
    sys.exit(not note or note not in module.read())' "$dkms"
}

apt() {
	DEBIAN_FRONTEND=noninteractive apt-get -q -y "$@" 2>&1
}

# served_by floop|loop - which module has loop devices, shown by one
served_by() {
	local device
	device=$(losetup --find --show "$image")
	case $1 in
	floop) is "the driver" "$(attr "$device" loop/driver)" floop ;;
	loop) check "in-tree" test ! -e \
		"/sys/block/${device#/dev/}/loop/driver" ;;
	esac
	losetup --detach "$device"
	gone "$image"
	udev_settle
}

# built VERSION - DKMS has it built again, which a removal has undone
built() {
	tar -C /var/lib -xf "$WORK/built.tar" "dkms/floop/$1"
}

# goes_on VERSION MODULE - that is installed, and the device, its unit and the
# loaded module are as they were
goes_on() {
	is "the package" "$(dpkg-query -W -f '${Version}' floop)" "$1"
	is "the module that is installed" "$(modinfo -F version floop)" "$2"
	is "the one that is loaded" "$(</sys/module/floop/version)" "floop 0.0"
	is "the unit" "$(systemctl is-active $unit)" active
	is "the image" "$(cat "/sys/block/${device#/dev/}/loop/backing_file")" \
		"$image"
}

undo() {
	umount -q /srv/data /srv/image || true
	losetup --detach-all
	umount -q "$host" || true
	rmmod loop 2>/dev/null || true
	insert_missing
}
later undo

case $BOOT in
1)
	own_away
	mkimage 16M $image >/dev/null
	version=$(dpkg-deb -f dist/floop_*.deb Version)
	new="floop ${version%.0}"
	mkdir -p "$WORK/repository"
	cp dist/*.deb $debs/trixie/dkms_*.deb "$WORK/repository/"
	stub compiler 'dpkg-dev, patch'
	echo "deb [trusted=yes] file:$WORK/repository ./" \
		>/etc/apt/sources.list.d/floop.list
	files >/var/tmp/files-before
	hide_other_kernel
	tar -C /var/lib -xf "$debs/dkms-$kver.tar"
	older
	tar -C /var/lib -cf "$WORK/built.tar" dkms
	index
	apt update -o Dir::Etc::SourceList=/dev/null

	rmmod floop
	modprobe loop
	served_by loop
	apt install --no-install-recommends floop=0.0.9 floop-dkms=0.0.9
	modprobe floop
	is "the old version" "$(</sys/module/floop/version)" "floop 0.0"
	by_dkms

	device=$(floop attach --driver floop "$image")
	unit=floop-detach.service
	udev_settle
	wait_until 20 systemctl -q is-active $unit
	apt upgrade --no-install-recommends
	goes_on "$version" "$new"
	matches "doctor" "$(floop doctor || true)" \
		"*floop 0.0 is loaded, and $new is installed*"
	built 0.0.9
	check "a downgrade" apt install --no-install-recommends \
		--allow-downgrades floop=0.0.9 floop-dkms=0.0.9
	goes_on 0.0.9 "floop 0.0"

	# It brings the new floop-dkms again.
	built "$version"
	said=$(apt install --no-install-recommends floop-drop-in)
	matches "in use" "$said" "*floop is in use*next boot on*"
	matches "initramfs" "$said" "*Processing triggers for initramfs-tools*"
	check "the kernel's driver is loaded again" test -e /sys/module/loop
	is "the command" "$(command -v floop)" /usr/bin/floop
	check "it has its conf" test -e $conf

	exec 5<"$device"
	said=$(apt remove floop)
	matches "removal" "$said" "*$device is in use*"
	is "in use, it is there" "$(cat \
		"/sys/block/${device#/dev/}/loop/backing_file")" "$image"
	is "the unit" "$(systemctl is-active $unit || true)" inactive
	exec 5<&-
	wait_until 20 test ! -e "/sys/block/${device#/dev/}/loop/backing_file"
	rmmod floop
	check "as at an upgrade" \
		/var/lib/dpkg/info/floop-drop-in.postinst configure
	served_by floop
	is "the new version" "$(</sys/module/floop/version)" "$new"
	by_dkms

	device=$(losetup --find --show "$image")
	said=$(apt remove floop-drop-in)
	matches "in use" "$said" "*loop devices are in use*next boot on*"
	is "and goes on" "$(attr "$device" loop/driver)" floop
	losetup --detach "$device"
	gone "$image"
	udev_settle
	# What the next boot does
	rmmod floop
	modprobe loop
	served_by loop

	device=$(losetup --find --show "$image")
	said=$(apt install --no-install-recommends floop floop-drop-in)
	matches "in use" "$said" "*loop is in use*next boot on*"
	check "goes on" test ! -e "/sys/block/${device#/dev/}/loop/driver"
	attach_at_boot
	install_other_kernel
	reboot_machine
	;;
2)
	matches "another kernel" "$kver" "7.*"
	by_dkms
	attached_at_boot
	# What the table doesn't name, systemd detaches at the shutdown.
	other=$(losetup --find --show "$(mkimage 1M "$WORK/other")")
	umount /srv/data /srv/image
	check "remove the command" apt remove floop
	gone $host/data.img
	is "another loop device" "$(device_of "$WORK/other")" "$other"
	losetup --detach "$other"
	gone "$WORK/other"
	umount $host
	rm /etc/flooptab
	said=$(apt remove floop-drop-in)
	matches "initramfs" "$said" "*Processing triggers for initramfs-tools*"
	served_by loop
	check "purge" apt purge floop floop-drop-in floop-dkms
	check "DKMS has nothing of it" test ! -e /var/lib/dkms/floop
	check "purge" apt purge dkms compiler
	rm -rf /etc/apt/sources.list.d/floop.list /var/lib/dkms
	own_away
	# The new kernel's
	rm "/boot/initrd.img-$kver"
	is "files that are left" \
		"$(files | comm -13 /var/tmp/files-before -)" ""
	is "files that are gone" \
		"$(files | comm -23 /var/tmp/files-before -)" ""
	;;
esac
