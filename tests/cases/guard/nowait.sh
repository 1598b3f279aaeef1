#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: I/O that may not wait goes through the file system if the disk below a
#   mapped image can't promise not to wait (dm-delay). It gets right data or
#   EAGAIN; other I/O stays mapped.
# modes: side-by-side
# machines: stable-side-by-side
. tests/lib/guard.sh
programs loopdev pattern nowait

size=$((700 * 2048))
dmsetup create below --table "0 $size delay $(the_disk 1) 0 0"
later dm_remove below

for fs in $(file_systems ext4); do
	begin_mapped "$fs" 8M
	udev_settle
	blockdev --flushbufs "$dev"
	goes_mapped "$fs: reads that may wait" "$dev"
	mapped=$(ios "$dev" mapped)
	check "$fs: I/O that may not wait" nowait rwf "$dev" 150
	is "$fs: of that, mapped" $(($(ios "$dev" mapped) - mapped)) 0
	goes_mapped "$fs: reads that may wait" "$dev"
	detach "$dev"
	end_fs
done
