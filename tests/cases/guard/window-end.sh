#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: After LOOP_CHANGE_FD or LOOP_CLR_FD an image stays until its mapped I/O
#   has ended: here a split read, which the disk has done and whose end is held
#   up.
# modes: side-by-side
# machines: stable-side-by-side
# cpus: 2
# module: debug
# timeout: 120
. tests/lib/guard.sh
load_debug
programs loopdev pattern

# read_in_window - across many extents, none of which has ended
read_in_window() {
	wait_mapped "$dev"
	window 5000 END
	pattern check -d -q -b 512k -s "$1" "$dev" 512k &
	reader=$!
	later stop_writes $reader
	wait_until 20 in_window END
}

for fs in $(file_systems ext4); do
	begin_fs "$fs"
	for i in 1 2; do
		fragmented "$MNT/$i" 1
		written "$MNT/$i" 1M "$i"
	done
	dev=$(attach --read-only "$MNT/1")
	read_in_window 1
	loopdev change "$dev" "$MNT/2" &
	changer=$!
	later stop_writes $changer
	sleep 1
	in_window END ||
		fail "$fs: the window was closed too early to show anything"
	[ -e "/proc/$changer" ] ||
		fail "$fs: the image was changed with I/O in flight"
	window 0
	wait "$reader" || fail "$fs: wrong data read meanwhile"
	wait "$changer" || fail "$fs: another image"
	wait_mapped "$dev"
	check "$fs: which it has" pattern check -d -q -s 2 "$dev" 1M

	# Detached: when the reader closes it, with its I/O done
	read_in_window 2
	loopdev detach "$dev"
	window 0
	wait "$reader" || fail "$fs: wrong data read before the detach"
	wait_until 20 unbound "$dev"
	end_fs
done
