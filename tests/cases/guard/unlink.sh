#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: An image without a name stays mapped and keeps its blocks until it is
#   detached. I/O to blocks that map_memory has no room for goes through the
#   file system.
# modes: side-by-side
# machines: stable-side-by-side
# timeout: 400
. tests/lib/guard.sh
programs loopdev pattern

memory=/sys/module/$MODULE/parameters/map_memory
later sh -c "echo 64 >$memory"
for fs in ext4 xfs; do
	begin_fs "$fs"
	written "$MNT/image" 8M 1
	dev=$(attach "$MNT/image")
	wait_mapped "$dev"
	rm "$MNT/image"
	check "$fs: another file" written "$MNT/neighbour" 8M 7
	sync
	wait_mapped "$dev"
	mapped=$(ios "$dev" mapped)
	check "$fs: writes to the unlinked image" \
		pattern write -d -q -b 64k -s 2 "$dev" 8M
	more_ios "$dev" mapped $((mapped + 100)) ||
		fail "$fs: they were not mapped"
	check "$fs: are there" pattern check -d -q -s 2 "$dev" 8M
	detach "$dev"
	drop_caches
	check "$fs: and nowhere else" pattern check -q -s 7 "$MNT/neighbour" 8M

	echo 0 >"$memory"
	written "$MNT/image" 4M 1
	dev=$(attach "$MNT/image")
	wait_until 20 mapped "$dev"
	goes_through_file "$fs: with no memory for a map" "$dev"
	is "$fs: its memory" "$(loop_stat "$dev" mapped_memory)" 0
	check "$fs: what it reads" pattern check -d -q -s 1 -o 1M "$dev" 3M
	detach "$dev"
	echo 64 >"$memory"
	end_fs
done
