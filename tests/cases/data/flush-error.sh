#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: When write-back loses data of a buffered image, each of six flushes
#   that wait at that time fails. None reports that its data is durable. So it
#   is with the in-tree driver.
# modes: side-by-side
. tests/lib/case.sh
programs loopdev pattern

size=$((400 * 2048))
# told ATTACH DETACH - how many of six flushes fail that wait when the data is
# lost
told() {
	local dev flusher flushers=() n=0
	dev=$($1 "$WORK/$fs/image")
	udev_settle
	pattern write -q -n -d -s 1 "$dev" 1M

	# The first flush hangs in the disk; the others wait behind it
	dmsetup suspend --noflush --nolockfs below
	for _ in 1 2 3 4 5 6; do
		sync "$dev" 2>/dev/null &
		flushers+=($!)
	done
	for flusher in "${flushers[@]}"; do
		wait_until 60 grep -q bio_ "/proc/$flusher/stack"
	done
	dmsetup load below --table "0 $size error"
	dmsetup resume below
	for flusher in "${flushers[@]}"; do
		wait "$flusher" || n=$((n + 1))
	done
	$2 "$dev"
	echo $n
}

modprobe loop
for fs in ext4 xfs; do
	mkdir "$WORK/$fs"
	for driver in ours in-tree; do
		dmsetup create below --table "0 $size linear $(the_disk 1) 0"
		make_fs "$fs" /dev/mapper/below
		mount /dev/mapper/below "$WORK/$fs"
		pattern write -q "$WORK/$fs/image" 8M
		sync
		if [ "$driver" = ours ]; then
			n=$(told "loop_attach buffered" "loopdev detach")
		else
			n=$(told "losetup --find --show" "losetup --detach")
		fi
		is "$fs, $driver: flushes that were told" "$n" 6
		unmount "$WORK/$fs"
		dm_remove below
	done
done
