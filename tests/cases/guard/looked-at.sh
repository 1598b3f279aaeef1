#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: Pages that readers of a preallocated image have in the page cache, of
#   blocks that were never written, don't keep what is behind them unmapped.
# modes: side-by-side
# machines: stable-side-by-side
# module: debug
. tests/lib/guard.sh
load_debug
programs loopdev pattern

# A piece in the middle of each chunk of 4 MiB.
pieces=6

for fs in $(file_systems ext4); do
	begin_fs "$fs"
	check "$fs: preallocated" fallocate -l $((pieces * 4))M "$MNT/image"
	for ((i = 0; i < pieces; i++)); do
		pattern write -d -q -s 1 -o $((i * 4 + 2))M "$MNT/image" 1M
	done
	sync
	# The page cache is emptied when an epoch begins: read until the end,
	# and what is next to the data as well.
	for ((i = 0; i < 10000000; i++)); do
		echo "pread -q $((i % pieces * 4))m 4k"
		echo "pread -q $((i % pieces * 4096 + 2044))k 4k"
	done | xfs_io -r "$MNT/image" >"$WORK/read" &
	reader=$!
	sleep 1
	# The fill waits until the pages are there again
	window 20000 FILL
	dev=$(attach --read-only "$MNT/image")
	wait_until 30 in_window FILL
	sleep 0.5
	window 0
	wait_mapped "$dev" "$pieces"
	kill "$reader" || fail "$fs: the reader ended before"
	wait "$reader" || true
	is "$fs: bytes mapped" "$(loop_stat "$dev" mapped_bytes)" \
		$((pieces << 20))
	detach "$dev"
	end_fs
done
