#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: what fails on a device is in the kernel's log in the words of the in-tree driver and the block layer: a partition scan, a read, an operation that the image's file system can't do
# modes: side-by-side
. tests/guest/lib.sh

modprobe loop
later rmmod loop
on_disk ext4 "$(echo "$DISKS" | cut -d" " -f1)" -O ^extent
head -c 8M /dev/urandom >"$MNT/image"

# told PATTERN - the first line like it since mark(), with the device's name and what depends on how I/O is cut replaced
mark() {
	marked=$((${marked-0} + 1))
	echo "floop-test: mark $marked" >/dev/kmsg
}
told() {
	dmesg --notime | sed -n "/floop-test: mark $marked\$/,\$p" |
		grep -m 1 -e "$1" |
		sed -E 's/^floop: //; s/\bf?loop[0-9]+/LOOP/g; s/flags 0x[0-9a-f]+ phys_seg [0-9]+/flags F phys_seg N/' ||
		fail "nothing like '$1' is in the log"
}

# scan_fails PREFIX - a partition is in use
scan_fails() {
	local device
	device=$(loopctl --prefix "$1" attach "$MNT/image")
	later loopctl --prefix "$1" detach "$device"
	addpart "$device" 1 0 8
	wait_until 20 test -b "${device}p1"
	exec 3<"${device}p1"
	mark
	loopctl --prefix "$1" set-status "$device" --flags 8
	exec 3<&-
	told "partition scan"
	delpart "$device" 1
}

# read_fails PREFIX - the image is cut short
read_fails() {
	local device
	cp "$MNT/image" "$MNT/short"
	device=$(loopctl --prefix "$1" attach "$MNT/short")
	later loopctl --prefix "$1" detach "$device"
	udev_settle
	truncate -s 0 "$MNT/short"
	mark
	if dd if="$device" of=/dev/null bs=4k count=1 skip=8 iflag=direct status=none 2>/dev/null; then
		fail "$1: what is cut off was read"
	fi
	told "error, dev"
}

# zeroes_fail PREFIX - ext4 can't do that to a file without extents
zeroes_fail() {
	local device
	device=$(loopctl --prefix "$1" attach "$MNT/image")
	later loopctl --prefix "$1" detach "$device"
	udev_settle
	mark
	blkdiscard -z -l 1M "$device"
	told "error, dev"
}

for what in scan_fails read_fails zeroes_fail; do
	is "$what" "$($what "$PREFIX")" "$($what loop)"
done
