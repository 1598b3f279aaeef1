#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: When write-back loses data of a buffered image, each of six flushes
#   that wait at that time fails. None reports that its data is durable.
# modes: side-by-side
. tests/lib/case.sh
programs loopdev pattern

size=$((400 * 2048))
for fs in ext4 xfs; do
	dmsetup create below --table "0 $size linear $(the_disk 1) 0"
	make_fs "$fs" /dev/mapper/below
	mkdir "$WORK/$fs"
	mount /dev/mapper/below "$WORK/$fs"
	pattern write -q "$WORK/$fs/image" 8M
	sync
	dev=$(loop_attach buffered "$WORK/$fs/image")
	udev_settle
	pattern write -q -n -d -s 1 "$dev" 1M

	# The first flush hangs in the disk; the others wait behind it
	dmsetup suspend --noflush --nolockfs below
	flushers=()
	for _ in 1 2 3 4 5 6; do
		sync "$dev" 2>/dev/null &
		flushers+=($!)
	done
	for flusher in "${flushers[@]}"; do
		wait_until 60 grep -q bio_ "/proc/$flusher/stack"
	done
	dmsetup load below --table "0 $size error"
	dmsetup resume below
	told=0
	for flusher in "${flushers[@]}"; do
		wait "$flusher" || told=$((told + 1))
	done
	is "$fs: flushes that were told" "$told" 6
	loopdev detach "$dev"
	unmount "$WORK/$fs"
	dm_remove below
done
