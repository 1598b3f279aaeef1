#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: When the file system below is shut down while the map is being filled,
#   the fill doesn't call its fsync again and again, and what it can't look up
#   is no hole.
# modes: side-by-side
# machines: stable-side-by-side
. tests/lib/guard.sh
programs loopdev pattern

begin_tracing

stop() {
	kill "$1" 2>/dev/null || true
	wait "$1" || true
}

for fs in $(file_systems ext4); do
	function=ext4_sync_file
	[ "$fs" = ext4 ] || function=xfs_file_fsync
	modprobe "$fs"
	count_calls "$function"
	begin_fs "$fs"
	written "$MNT/image" 4M 1
	truncate -s 600M "$MNT/image"
	dev=$(attach "$MNT/image")
	wait_mapped "$dev" 4
	# The last write isn't in the map yet when the file system is shut down
	dd if=<(tr '\0' x </dev/zero) of="$dev" bs=4k seek=2048 count=140000 \
		iflag=fullblock oflag=direct 2>"$WORK/dd" &
	writer=$!
	later stop "$writer"
	wait_until 30 maps "$dev" $((9 << 20))
	check "$fs: a shutdown" xfs_io -x -c shutdown "$MNT"
	! wait "$writer" || fail "$fs: the writes did not fail"
	sleep 1
	before=$(calls)
	sleep 4
	n=$(($(calls) - before))
	[ "$n" -le 8 ] || fail "$fs: $n times fsync in 4 seconds"
	echo "ok: $fs: $n times fsync in 4 seconds"
	written=$(sed -n 's/^\([0-9]*\)+0 records out$/\1/p' "$WORK/dd")
	last=$((2047 + written))
	! dd if="$dev" bs=4k count=1 skip="$last" iflag=direct status=none |
		cmp -s -n 4096 - /dev/zero ||
		fail "$fs: block $last was written, and reads as zeroes"
	detach "$dev"
	unmount "$MNT"
	stop_counting
done
