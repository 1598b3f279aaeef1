#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: Blocks that a write to a hole has allocated are mapped only once the
#   file system has made the allocation durable. Before that, a FUA write there
#   would be lost with the power.
# modes: side-by-side
# machines: stable-side-by-side
. tests/lib/guard.sh
programs loopdev pattern

for fs in ext4 xfs; do
	begin_fs "$fs"
	# xfs commits by itself every 30 seconds only
	[ "$fs" = xfs ] || mount -o remount,commit=300 "$MNT"
	truncate -s 8M "$MNT/image"
	dev=$(attach "$MNT/image")
	wait_mapped "$dev" 0
	udev_settle
	before=$(flushes)
	check "$fs: a write to a hole" \
		pattern write -d -n -q -b 64k -s 1 "$dev" 1M
	wait_mapped "$dev" 1
	[ "$(flushes)" -gt "$before" ] ||
		fail "$fs: mapped, and the disk got no flush before that"
	detach "$dev"
	end_fs
done
