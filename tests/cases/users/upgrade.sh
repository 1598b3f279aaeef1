#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: After an upgrade of the kernel, to the next series, the boot attaches
#   and mounts what /etc/flooptab and fstab name, by the module that was built
#   for the new kernel. The shutdown before that has left the file systems
#   clean.
# modes: drop-in
# machines: lts-drop-in
# init: systemd
# timeout: 600
# DKMS builds the module for a new kernel: tests/packages. Here both are there.
. tests/lib/users.sh

disk=${DISKS%% *}
host=/srv/host

undo() {
	umount -q /srv/data /srv/image || true
	systemctl stop floop@data.service || true
	umount -q "$host" || true
	: >/etc/fstab
	rm -f /etc/flooptab
	systemctl daemon-reload
}
later undo

# boot_other_kernel - the one beside this one, with what this one was told
boot_other_kernel() {
	local kver
	kver=$(find /lib/modules -mindepth 1 -maxdepth 1 -printf '%f\n' |
		grep -vx "$(uname -r)")
	uname -r >"$WORK/before"
	initramfs drop-in "$kver" "${MODULE_FILE%/*/*}/$kver/floop.ko"
	check "load the new kernel" kexec --load "/boot/vmlinuz-$kver" \
		--initrd="$WORK/initrd" --reuse-cmdline --append=rw
	reboot_machine
}

case $BOOT in
1)
	mkfs.xfs -q -f "$disk"
	mkdir -p $host /srv/data /srv/image
	mount "$disk" $host
	for name in data image; do
		mkfs.ext4 -q -F "$(mkimage 32M "$host/$name.img")"
	done
	cat >/etc/fstab <<-END
		UUID=$(blkid -s UUID -o value "$disk") $host xfs defaults 0 2
		/dev/floop/data /srv/data ext4 defaults 0 2
		$host/image.img /srv/image ext4 loop 0 0
	END
	echo "data $host/data.img" >/etc/flooptab
	# As the boot does; users/flooptab has that.
	systemctl daemon-reload
	check "attach and mount them" \
		systemctl start srv-data.mount srv-image.mount
	for name in data image; do
		noise /srv/$name/noise 4
		sum_of /srv/$name/noise >"$WORK/sum-$name"
	done
	boot_other_kernel
	;;
2)
	matches "another kernel than $(<"$WORK/before")" "$(uname -r)" "7.*"
	is "the unit" "$(systemctl is-active floop@data.service)" active
	is "mounted by its name" "$(findmnt -n -o SOURCE /srv/data)" \
		"$(realpath /dev/floop/data)"
	ours "$(realpath /dev/floop/data)"
	ours "$(findmnt -n -o SOURCE /srv/image)"
	for name in data image; do
		is "what was written" "$(sum_of /srv/$name/noise)" \
			"$(<"$WORK/sum-$name")"
	done
	clean_boot "${disk#/dev/}"
	;;
esac
