#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: A live system boots by initramfs-tools and live-boot, unchanged: a
#   squashfs image below an overlay. An initramfs that was made with the
#   drop-in installed loads floop, one from before loads the in-tree driver.
# modes: drop-in in-tree
# machines: lts-drop-in lts-in-tree
# init: systemd
# timeout: 300
# long: yes
. tests/lib/users.sh

disk=${DISKS%% *}

# boot_live live|drop-in - reboot, with the initramfs of that name
boot_live() {
	local kver arguments
	kver=$(uname -r)
	initramfs "$1" "$kver" "$MODULE_FILE"
	arguments=$(sed 's/ init=.*//; s/ virtme[^ ]*//g; s/ root=[^ ]*//' \
		/proc/cmdline)
	check "load the live system" kexec --load "/boot/vmlinuz-$kver" \
		--initrd="$WORK/initrd" \
		--append="$arguments boot=live live-media=$disk"
	reboot_machine
}

case $BOOT in
1)
	tree "$WORK/system"
	# The live system's only program writes down what it finds, and reboots.
	cat >"$WORK/system/usr/sbin/init" <<-'END'
		#!/bin/sh
		mount() { busybox mount "$@"; }
		[ -e /proc/mounts ] || mount -t proc proc /proc
		[ -e /sys/block ] || mount -t sysfs sysfs /sys
		mount -o remount,rw /run/live/medium
		exec > /run/live/medium/report 2>&1
		echo "driver: $(busybox cat /sys/module/floop/version)"
		busybox grep -E ' (/|/run/live/rootfs/[^ ]*) ' /proc/mounts
		busybox cat /sys/block/loop*/loop/backing_file
		busybox sha256sum /usr/lib/noise
		busybox cp /usr/lib/noise /root/copy &&
			busybox cmp /usr/lib/noise /root/copy && echo "written: yes"
		exec > /dev/console 2>&1
		mount -o remount,ro /run/live/medium
		busybox reboot -f
	END
	chmod +x "$WORK/system/usr/sbin/init"
	make_fs ext4 "$disk"
	mount "$disk" /mnt
	mkdir /mnt/live
	mksquashfs "$WORK/system" /mnt/live/filesystem.squashfs -quiet \
		-no-progress
	sum_of "$WORK/system/usr/lib/noise" >"$WORK/sum"
	umount /mnt

	boot_live live
	;;
2)
	mount_at "$disk" /mnt
	cat /mnt/report
	if ! in_tree; then
		grep -x "driver: " /mnt/report ||
			fail "an initramfs without the drop-in has it"
		umount /mnt
		boot_live drop-in
	fi
	;&
3)
	mountpoint -q /mnt || mount_at "$disk" /mnt
	cat /mnt/report
	# found WHAT PATTERN - a line of the report
	found() {
		grep -Eq "$2" /mnt/report ||
			fail "$1: no line of the report is like '$2'"
		echo "ok: $1"
	}
	in_tree || found "the driver" '^driver: floop '
	found "the root" '^overlay / overlay '
	found "what is below it" \
		'^/dev/loop[0-9]+ /run/live/rootfs/[^ ]* squashfs '
	found "its image" '/live/filesystem.squashfs$'
	found "what it reads" "^$(<"$WORK/sum")  /usr/lib/noise"
	found "what it writes" '^written: yes$'
	;;
esac
