#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: An I/O that has been looked up in the map while the map changed goes
#   through the file system: the tree changes in place, and may have answered
#   with the place of another extent. Nobody keeps that answer for later.
# modes: side-by-side
# machines: stable-side-by-side
# cpus: 2
# module: debug
# timeout: 120
. tests/lib/guard.sh
load_debug
programs loopdev pattern

for fs in $(file_systems xfs); do
	begin_fs "$fs"
	written "$MNT/image" 1M 1
	pattern write -q -b 64k -s 2 -o 4M "$MNT/image" 64k
	truncate -s 16M "$MNT/image"
	dev=$(attach "$MNT/image")
	allocate "$dev" off
	wait_mapped "$dev" 1
	wait_until 20 maps "$dev" $((1088 << 10))

	# A block is written, and isn't in the map.
	window 60000 FILL
	check "$fs: a write to a hole" \
		pattern write -d -n -q -b 4k -s 3 -o 8M "$dev" 4k
	wait_until 20 in_window FILL
	bytes=$(loop_stat "$dev" mapped_bytes)
	before=$(ios "$dev" mapped)
	window 60000 FILL FIND
	pattern check -d -q -b 64k -s 2 -o 4M "$dev" 64k &
	reader=$!
	later stop_writes $reader
	wait_until 20 in_window FIND
	# Now it is.
	window 60000 FIND
	wait_until 20 maps "$dev" $((bytes + 4096))
	in_window FIND || fail "$fs: the window was closed too early"
	window 0
	wait "$reader" || fail "$fs: a read meanwhile"
	is "$fs: mapped I/O" "$(ios "$dev" mapped)" "$before"
	# Through the map again
	check "$fs: and read again" \
		pattern check -d -q -b 64k -s 2 -o 4M "$dev" 64k
	more_ios "$dev" mapped "$before" || fail "$fs: it wasn't mapped then"
	detach "$dev"
	end_fs
done
