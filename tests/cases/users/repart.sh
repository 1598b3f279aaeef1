#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: systemd-repart makes an image with file systems in it through loop
#   devices, and grows it.
# modes: drop-in in-tree
# machines: stable-drop-in stable-in-tree
# init: systemd
# long: yes
. tests/lib/users.sh

tree "$WORK/system"
mkdir "$WORK/definitions"
cat >"$WORK/definitions/10-esp.conf" <<-END
	[Partition]
	Type=esp
	Format=vfat
	SizeMinBytes=40M
	SizeMaxBytes=40M
END
cat >"$WORK/definitions/20-root.conf" <<-END
	[Partition]
	Type=root-x86-64
	Format=ext4
	CopyFiles=$WORK/system:/
	SizeMinBytes=64M
	GrowFileSystem=yes
END
image=$WORK/image.raw
later rm -f "$image"

# Offline it would do without loop devices.
check "make it" systemd-repart --no-pager --offline=no --empty=create \
	--size=128M --dry-run=no --definitions="$WORK/definitions" "$image"
gone "$image"
is "the partitions" "$(sfdisk --dump "$image" | grep -c ' : start=')" 2

look() {
	local device
	device=$(losetup --find --show --partscan "$image")
	later_commands=("losetup --detach $device")
	ours "$device"
	udev_settle
	check "the ESP has no fault" fsck.vfat -n "${device}p1"
	check "the root has no fault" e2fsck -fn "${device}p2"
	mount "${device}p2" /mnt
	check "what was copied" \
		diff -r --no-dereference "$WORK/system/usr" /mnt/usr
	# What x-systemd.growfs in fstab does
	check "grow the file system" /usr/lib/systemd/systemd-growfs /mnt
	size=$(findmnt -n -b -o SIZE /mnt)
	umount /mnt
	losetup --detach "$device"
	later_commands=()
	gone "$image"
}

look
before=$size
check "grow it" systemd-repart --no-pager --offline=no --size=192M \
	--dry-run=no --definitions="$WORK/definitions" "$image"
gone "$image"
look
[ "$size" -gt "$before" ] || fail "it didn't grow: $before, then $size"
echo "ok: the file system grew from $before to $size"
