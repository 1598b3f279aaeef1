#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: Side by side with the in-tree driver, a shutdown detaches floop's
#   devices and leaves clean the file systems that their images are on. LVM
#   takes the devices once it is told of them, as floop doctor says. lsblk and
#   udisks take them for disks.
# modes: side-by-side
# machines: stable-side-by-side
# init: systemd
# timeout: 300
# long: yes
. tests/lib/users.sh

disk=${DISKS%% *}
host=/srv/host
root_image=/var/lib/floop.img
images=("$host/disk.img" "$root_image")

case $BOOT in
1)
	mkfs.xfs -q -f "$disk"
	mkdir -p $host
	mount "$disk" $host
	for image in "${images[@]}"; do
		mkfs.ext4 -q -F "$(mkimage 64M "$image")"
		device=$("$FLOOP" attach "$image")
		mkdir "$WORK/${image##*/}"
		mount "$device" "$WORK/${image##*/}"
		noise "$WORK/${image##*/}/noise" 8
		sum_of "$WORK/${image##*/}/noise" >"$WORK/sum-${image##*/}"
	done
	cp /etc/lvm/lvmlocal.conf "$WORK/"
	unused=$("$FLOOP" attach "$(mkimage 16M $host/unused.img)")
	is "lsblk: what it is" "$(lsblk -n -o TYPE "$unused")" disk
	matches "udisks, about one in use" \
		"$(udisksctl info --block-device "$device")" \
		"*Device: *$device*IdType: *ext4*MountPoints: *$WORK/*"
	refused "LVM, not told of them" "*device type is unknown*" \
		vgcreate -q -y floopvg "$unused"
	mend=$("$FLOOP" doctor | grep -A 1 "LVM skips" | tail -n 1 || true)
	matches "how doctor mends that" "$mend" "* >>/etc/lvm/lvmlocal.conf"
	check "mend it" sh -c "$mend"
	check "LVM" vgcreate -q -y floopvg "$unused"
	is "doctor, about LVM" "$("$FLOOP" doctor | grep "LVM skips")" ""
	udev_settle
	is "what detaches them" "$(systemctl is-active floop-detach.service)" \
		active
	reboot_machine
	;;
2)
	later rm -f $root_image
	later cp "$WORK/lvmlocal.conf" /etc/lvm/lvmlocal.conf
	is "what the boot recovered" \
		"$(dmesg | grep -E 'EXT4-fs.*(recovery|orphan)' || true)" ""
	mount_at "$disk" $host
	matches "the host's file system" \
		"$(dmesg | grep "XFS (${disk#/dev/}): ")" \
		"*Ending clean mount*"
	for image in "${images[@]}"; do
		is "${image##*/} had been unmounted" \
			"$(dumpe2fs -h "$image" 2>/dev/null |
				grep -c needs_recovery)" 0
		check "and has no fault" e2fsck -fn "$image"
		device=$("$FLOOP" attach "$image")
		mount "$device" /mnt
		is "what was written" "$(sum_of /mnt/noise)" \
			"$(<"$WORK/sum-${image##*/}")"
		umount /mnt
		udev_settle
		check "detach" "$FLOOP" detach "$device"
	done
	;;
esac
