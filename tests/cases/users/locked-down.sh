#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: On a kernel that is locked down and refuses floop, which isn't signed,
#   the in-tree driver serves: from the initramfs on, for fstab and
#   /etc/flooptab at boot, and on demand. Nothing is said about floop, and
#   `floop doctor` says why it isn't loaded. The next boot has floop again.
# modes: drop-in
# machines: lts-drop-in
# init: systemd
# timeout: 300
# What is in the way of floop, one after the other: interface/autoload.
#
# In the second boot the helpers find what they find in mode in-tree.
# long: yes
[ "$BOOT" != 2 ] || DRIVER_MODE=in-tree
. tests/lib/users.sh

folder=/var/lib/locked-down

undo() {
	umount -q /srv/image || true
	systemctl stop floop@data.service || true
	: >/etc/fstab
	rm -rf /etc/flooptab "$folder"
	systemctl daemon-reload
}
later undo

# serves_in_tree DEVICE - the kernel's own driver does
serves_in_tree() {
	check "$1 is attached" test -e "/sys/block/${1#/dev/}/loop"
	check "in-tree" test ! -e "/sys/block/${1#/dev/}/loop/driver"
}

# quiet COMMAND... - it must succeed, and print nothing
quiet() {
	local said
	said=$("$@" 2>&1) || fail "$*: $said"
	is "$*" "$said" ""
}

unload() {
	udev_settle
	wait_until 20 modprobe --quiet --remove loop
	is "what is loaded" "$(ls -d /sys/module/{f,}loop 2>/dev/null)" ""
}

case $BOOT in
1)
	mkdir -p $folder /srv/image
	for name in data image; do
		mkfs.ext4 -q -F "$(mkimage 32M $folder/$name.img)"
	done
	echo "$folder/image.img /srv/image ext4 loop 0 0" >/etc/fstab
	echo "data $folder/data.img" >/etc/flooptab
	kver=$(uname -r)
	initramfs drop-in "$kver" "$MODULE_FILE"
	# What follows `init=` is for init. Without `rw` initramfs-tools mounts
	# the root read-only, and this machine's fstab says nothing of it.
	check "load a kernel" kexec --load "/boot/vmlinuz-$kver" \
		--initrd="$WORK/initrd" \
		--command-line="lockdown=integrity rw $(</proc/cmdline)"
	reboot_machine
	;;
2)
	matches "locked down" "$(</sys/kernel/security/lockdown)" \
		"*\[integrity\]*"
	refused "floop" "*not permitted*" insmod "$MODULE_FILE" names=loop
	check "there is no floop" test ! -e /sys/module/floop

	echo "--- at boot"
	is "what has failed" "$(systemctl --failed --plain --no-legend)" ""
	is "what the kernel says of floop" \
		"$(dmesg | grep -i '\] floop' || true)" ""
	is "the unit" "$(systemctl is-active floop@data.service)" active
	serves_in_tree "$(realpath /dev/floop/data)"
	serves_in_tree "$(findmnt -n -o SOURCE /srv/image)"
	noise /srv/image/noise 4
	sum_of /srv/image/noise >"$WORK/sum"

	echo "--- doctor"
	status=0
	said=$(floop doctor 2>&1) || status=$?
	is "its exit code, for an error" "$status" 11
	matches "why" "$said" \
		"*/floop.ko: is not signed, and lockdown refuses to load it*"
	matches "a remedy" "$said" "*; no one command does it: sign it*"
	is "remedies that don't help" "$(grep modprobe <<<"$said" ||
		true)" ""
	umount /srv/image
	check "stop" systemctl stop floop@data.service
	unload

	echo "--- on demand"
	quiet modprobe loop
	unload
	# As it is at boot, before a driver is loaded
	mknod -m 660 /dev/loop-control c 10 237
	quiet dd if=/dev/loop-control count=0 status=none
	check "the driver" test -e /sys/module/loop
	unload
	file=$(mkimage 16M "$WORK/image")
	device=$(losetup --find --show "$file" 2>"$WORK/said")
	is "what losetup says" "$(<"$WORK/said")" ""
	serves_in_tree "$device"
	quiet mkfs.ext4 -q "$device"
	quiet losetup --detach "$device"
	gone "$file"
	unload
	device=$(floop attach "$file" 2>"$WORK/said")
	is "what floop says" "$(<"$WORK/said")" ""
	serves_in_tree "$device"
	quiet mount "$device" /mnt
	noise /mnt/noise 4
	quiet umount /mnt
	check "detach" floop detach "$device"
	gone "$file"
	check "the image has no fault" e2fsck -fn "$file"
	check "there is no floop" test ! -e /sys/module/floop
	reboot_machine
	;;
3)
	is "not locked down" "$(</sys/kernel/security/lockdown)" \
		"[none] integrity confidentiality"
	ours "$(realpath /dev/floop/data)"
	ours "$(findmnt -n -o SOURCE /srv/image)"
	is "what was written" "$(sum_of /srv/image/noise)" "$(<"$WORK/sum")"
	;;
esac
