#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: Pages that readers of a preallocated image have in the page cache, of
#   blocks that were never written, don't keep what is behind them unmapped, nor
#   do pages that have gone.
# modes: side-by-side
# machines: stable-side-by-side
# module: debug
. tests/lib/guard.sh
load_debug
programs loopdev pattern

# A piece in the middle of each chunk of 4 MiB.
pieces=6

# preallocated FILE
preallocated() {
	local i
	fallocate -l $((pieces * 4))M "$1"
	for ((i = 0; i < pieces; i++)); do
		pattern write -d -q -s 1 -o $((i * 4 + 2))M "$1" 1M
	done
	sync
}

for fs in $(file_systems ext4); do
	begin_fs "$fs"
	check "$fs: preallocated" preallocated "$MNT/image"
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

# Somebody reads all of it once, while the fill looks: that makes all of it data
# until the first batch is mapped, which drops the pages. A batch ends after
# 1000 questions here, so others follow it. No helper lists the blocks
set_helper ""
for fs in $(file_systems xfs); do
	begin_fs "$fs"
	check "$fs: preallocated" preallocated "$MNT/image"
	window 20000 FILL LOOKS
	dev=$(attach "$MNT/image")
	wait_until 30 in_window FILL
	cat "$MNT/image" >/dev/null
	window 0 LOOKS
	wait_mapped "$dev" "$pieces"
	is "$fs: bytes mapped then" "$(loop_stat "$dev" mapped_bytes)" \
		$((pieces << 20))
	window 0
	detach "$dev"
	end_fs
done
