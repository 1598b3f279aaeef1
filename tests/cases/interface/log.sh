#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: The kernel log reports failures on a device in the words of the in-tree
#   driver and the block layer: a partition scan, a read, a mapped read, an
#   operation that the image's file system can't do, a flush without an image.
# modes: side-by-side
# machines: stable-side-by-side
. tests/lib/case.sh

modprobe loop
on_disk ext4 "$(echo "$DISKS" | cut -d" " -f1)" -O ^extent,^64bit
head -c 8M /dev/urandom >"$MNT/image"
echo ,1M | sfdisk -q "$MNT/image"

# told PATTERN - the first line like it since the mark, without what differs:
# the device's name, and how I/O was cut
told() {
	logged | grep -m 1 -e "$1" |
		sed -E -e 's/^floop: //; s/\bf?loop[0-9]+/LOOP/g' \
		-e 's/flags 0x[0-9a-f]+ phys_seg [0-9]+/flags F phys_seg N/' ||
		fail "nothing like '$1' is in the log"
}

# scan_fails PREFIX - a partition is in use
scan_fails() {
	local device
	device=$(CTL="/dev/$1-control" loopdev attach "$MNT/image")
	partx --add "$device"
	wait_until 20 test -b "${device}p1"
	exec 3<"${device}p1"
	mark_log
	CTL="/dev/$1-control" loopdev set -f 8 "$device"
	exec 3<&-
	told "partition scan"
	# udev looks at it once more when it is closed
	udev_settle
	partx --delete "$device"
	loopdev detach "$device"
}

# read_fails PREFIX - the image is cut short
read_fails() {
	local device
	cp "$MNT/image" "$MNT/short"
	device=$(CTL="/dev/$1-control" loopdev attach "$MNT/short")
	udev_settle
	truncate -s 0 "$MNT/short"
	mark_log
	if dd if="$device" of=/dev/null bs=4k count=1 skip=8 iflag=direct \
		status=none 2>/dev/null; then
		fail "$1: data beyond the end was read"
	fi
	told "error, dev"
	loopdev detach "$device"
}

# bad_read_is_told DEVICE - it can't be read, and the log says so
bad_read_is_told() {
	! dd if="$1" of=/dev/null bs=4k count=1 skip=8 iflag=direct \
		status=none 2>/dev/null ||
		fail "$1: data that the disk can't read was read"
	logged | grep -q "error, dev ${1#/dev/}, sector 64 "
}

# disk_fails PREFIX - the disk that is the image; our driver maps it
disk_fails() {
	local device mapping
	dmsetup create fails --table "0 16384 zero"
	device=$(CTL="/dev/$1-control" loopdev attach -d /dev/mapper/fails)
	mapping=/sys/block/${device#/dev/}/loop/mapping
	[ ! -e "$mapping" ] || echo 1 >"$mapping"
	udev_settle
	dmsetup reload fails --table "0 16384 error"
	dmsetup suspend fails
	dmsetup resume fails
	udev_settle
	[ ! -e "$mapping" ] || wait_until 30 grep -q 1 "${mapping%ing}ed"
	mark_log
	# The log limits the rate of these lines, and udev's reads count, too
	wait_until 30 bad_read_is_told "$device"
	told "error, dev ${device#/dev/}, sector 64 "
	loopdev detach "$device"
	udev_settle
	dmsetup remove --retry fails
}

# zeroes_fail PREFIX - ext4 can't do that to a file without extents
zeroes_fail() {
	local device
	device=$(CTL="/dev/$1-control" loopdev attach "$MNT/image")
	udev_settle
	mark_log
	blkdiscard -f -z -l 1M "$device"
	told "error, dev"
	loopdev detach "$device"
}

# flush_fails PREFIX - the block layer lets it through to a device that has no
# image, for the device had a write cache with its last one
flush_fails() {
	local device
	device=$(CTL="/dev/$1-control" loopdev attach "$MNT/image")
	udev_settle
	loopdev detach "$device"
	udev_settle
	mark_log
	! sync "$device" 2>/dev/null ||
		fail "$1: a flush without an image has succeeded"
	told "error, dev ${device#/dev/}, sector 0 "
}

for what in scan_fails read_fails disk_fails zeroes_fail flush_fails; do
	ours=$($what "$PREFIX")
	wanted=$($what loop)
	matches "$what: in-tree" "$wanted" "*LOOP*"
	is "$what" "$ours" "$wanted"
done
