#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: when the file system below is shut down a mapped device goes on with what is mapped, and what was written and flushed then is in the image after a remount, which finds the file system clean
# modes: side-by-side
# timeout: 400
. tests/guest/lib.sh
. tests/programs/lib.sh
. tests/guest/guard.sh
programs loopdev pattern

for fs in ext4 xfs; do
	begin_fs "$fs"
	written "$MNT/image" 8M 1
	written "$MNT/neighbour" 8M 7
	truncate -s 12M "$MNT/image"
	sync
	dev=$(attach "$MNT/image")
	wait_mapped "$dev" 8
	check "$fs: shutdown" xfs_io -x -c "shutdown" "$MNT"
	check "$fs: writes" pattern write -d -q -s 2 "$dev" 4M
	check "$fs: reads" pattern check -d -q -s 2 "$dev" 4M
	status=0
	pattern write -d -q -b 64k -s 3 -o 10M "$dev" 64k || status=$?
	is "$fs: a write that needs the file system" "$status" 3
	detach "$dev"
	unmount "$MNT"
	mount /dev/mapper/below "$MNT"
	check "$fs: what was written" pattern check -q -s 2 "$MNT/image" 4M
	check "$fs: the rest" pattern check -q -s 1 -o 4M "$MNT/image" 4M
	check "$fs: the neighbour" pattern check -q -s 7 "$MNT/neighbour" 8M
	end_fs
done
