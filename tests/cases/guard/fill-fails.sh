#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: When the file system below is shut down while the map is being filled,
#   the fill doesn't call its fsync again and again.
# modes: side-by-side
. tests/lib/guard.sh
programs loopdev pattern

begin_tracing

stop() {
	kill "$1" 2>/dev/null || true
	wait "$1" || true
}

for fs in ext4 xfs; do
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
	dd if=/dev/zero of="$dev" bs=4k seek=2048 count=140000 oflag=direct \
		status=none 2>"$WORK/dd" &
	writer=$!
	later stop "$writer"
	wait_until 30 maps "$dev" $((9 << 20))
	check "$fs: a shutdown" xfs_io -x -c shutdown "$MNT"
	! wait "$writer" || fail "$fs: the writes did not fail"
	sleep 1
	before=$(calls)
	sleep 4
	n=$(($(calls) - before))
	[ "$n" -le 20 ] || fail "$fs: $n times fsync in 4 seconds"
	echo "ok: $fs: $n times fsync in 4 seconds"
	detach "$dev"
	unmount "$MNT"
	stop_counting
done
