#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: With apt, floop-drop-in changes drivers at once where no device is in
#   use, and at the next boot where one is; /etc/flooptab is attached at that
#   boot. Removing it brings the kernel's driver back. Both have the initramfs
#   made anew. Purged, the packages leave no file.
# modes: drop-in
# machines: stable-drop-in
# init: systemd
# timeout: 400
# What DKMS does with floop-dkms is in tests/packages; here a package of that
# name stands for it, and the module is the machine's.
. tests/lib/users.sh

conf=/usr/lib/modprobe.d/floop-drop-in.conf
image=/var/lib/packages.img

# What the machine's own start puts where the packages put it. It does so at
# each boot.
own=(
	/etc/udev/rules.d/60-floop.rules /usr/local/bin/floop
	/usr/lib/systemd/system/floop{-detach,@}.service
	/usr/sbin/mount.floop
	/usr/lib/systemd/system-generators/floop-generator
	/usr/lib/modprobe.d/floop-drop-in.conf
	/usr/lib/modules-load.d/floop-drop-in.conf
)

# files - all names in /etc and /usr, and of the packages' scripts
files() {
	find /etc /usr /lib/modules/*/updates /var/lib/dpkg/info -xdev \
		-not -name '*.cache' -not -path '/etc/apt*' | sort
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

put_back() {
	losetup --detach-all
	apt purge floop floop-drop-in floop-dkms >/dev/null || true
	rm -f "$image" /etc/flooptab /etc/apt/sources.list.d/floop.list
	for kind in modprobe modules-load; do
		mkdir -p /usr/lib/$kind.d
		cp drop-in/$kind.conf /usr/lib/$kind.d/floop-drop-in.conf
	done
	cp cli/60-floop.rules /etc/udev/rules.d/
	cp cli/floop{-detach,@}.service /usr/lib/systemd/system/
	cp "$FLOOP" /usr/local/bin/
	ln -sfn /usr/local/bin/floop /usr/sbin/mount.floop
	ln -sfn /usr/local/bin/floop \
		/usr/lib/systemd/system-generators/floop-generator
	udevadm control --reload
	systemctl daemon-reload
	rmmod loop 2>/dev/null || true
	modprobe loop
}
later put_back

case $BOOT in
1)
	rm -f "${own[@]}"
	mkimage 16M $image >/dev/null
	mkdir -p "$WORK/repository" "$WORK/floop-dkms/DEBIAN"
	version=$(dpkg-deb -f dist/floop_*.deb Version)
	cat >"$WORK/floop-dkms/DEBIAN/control" <<-END
		Package: floop-dkms
		Version: $version
		Architecture: all
		Maintainer: floop
		Description: stands for the package of this name
	END
	dpkg-deb -b "$WORK/floop-dkms" "$WORK/repository/floop-dkms.deb"
	cp dist/floop_*.deb dist/floop-drop-in_*.deb "$WORK/repository/"
	apt_files=("$WORK"/repository/*.deb)
	files >/var/tmp/files-before

	rmmod floop
	modprobe loop
	served_by loop
	modprobe floop
	device=$("$FLOOP" attach --driver floop "$image")
	said=$(apt install --no-install-recommends "${apt_files[@]}")
	matches "in use" "$said" "*floop is in use*next boot on*"
	matches "initramfs" "$said" "*Processing triggers for initramfs-tools*"
	check "the kernel's driver is loaded again" test -e /sys/module/loop
	is "the command" "$(command -v floop)" /usr/bin/floop
	check "it has its conf" test -e $conf
	"$FLOOP" detach "$device"
	gone "$image"
	rmmod floop
	check "as at an upgrade" \
		/var/lib/dpkg/info/floop-drop-in.postinst configure
	served_by floop

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
	said=$(apt install "${apt_files[@]}")
	matches "in use" "$said" "*loop is in use*next boot on*"
	check "goes on" test ! -e "/sys/block/${device#/dev/}/loop/driver"
	echo "data $image" >/etc/flooptab
	reboot_machine
	;;
2)
	device=$(realpath /dev/floop/data)
	ours "$device"
	is "its unit" "$(systemctl show --property=ActiveState --value \
		floop@data.service)" active
	check "stop it" systemctl stop floop@data.service
	gone $image
	rm /etc/flooptab
	said=$(apt remove floop-drop-in)
	matches "initramfs" "$said" "*Processing triggers for initramfs-tools*"
	served_by loop
	check "purge" apt purge floop floop-drop-in floop-dkms
	rm -f "${own[@]}"
	is "files that are left" \
		"$(files | comm -13 /var/tmp/files-before -)" ""
	is "files that are gone" \
		"$(files | comm -23 /var/tmp/files-before -)" ""
	rm /var/tmp/files-before
	;;
esac
