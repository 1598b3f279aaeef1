#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: The written parts of a sparse image are mapped as they are written.
#   Holes and fallocated blocks aren't.
# modes: side-by-side
# machines: stable-side-by-side
# timeout: 400
. tests/lib/guard.sh
programs loopdev pattern

for fs in ext4 xfs; do
	begin_fs "$fs"
	mkimage 32M "$MNT/image" >/dev/null
	fallocate -o 16M -l 4M "$MNT/image"
	dev=$(attach "$MNT/image")
	wait_until 30 mapped "$dev"
	is "$fs: nothing to map yet" "$(loop_stat "$dev" mapped_bytes)" 0
	check "$fs: a hole" cmp -n 1M "$dev" /dev/zero
	check "$fs: fallocated" cmp -n 4M -i 16M:0 "$dev" /dev/zero
	is "$fs: still nothing" "$(loop_stat "$dev" mapped_bytes)" 0

	wait_until 20 reads_hole 0 4096
	holes=$(ios "$dev" file_hole)
	flushes=$(ios "$dev" file_flush)
	check "$fs: written" pattern write -d -q -b 64k -s 1 -o 1M "$dev" 2M
	more_ios "$dev" file_hole $((holes + 15)) ||
		fail "$fs: no I/O is counted as one to a hole"
	more_ios "$dev" file_flush "$flushes" ||
		fail "$fs: no flush is counted as one of such writes"
	wait_mapped "$dev" 2
	check "$fs: in fallocated blocks, too" \
		pattern write -d -q -b 64k -s 2 -o 17M "$dev" 1M
	wait_mapped "$dev" 3
	is "$fs: and no more than that" "$(loop_stat "$dev" mapped_bytes)" \
		$((3 << 20))
	mapped=$(ios "$dev" mapped)
	check "$fs: written again" \
		pattern write -d -q -b 64k -s 3 -o 1M "$dev" 2M
	more_ios "$dev" mapped $((mapped + 31)) ||
		fail "$fs: the written blocks are not mapped"
	# From a hole into the map and out again, in one I/O
	check "$fs: across the edges" pattern write -d -q -b 4M -s 4 "$dev" 4M
	check "$fs: across the edges" pattern check -d -q -b 4M -s 4 "$dev" 4M
	wait_mapped "$dev" 5
	is "$fs: leases broken by it" "$(broken "$dev")" 0
	detach "$dev"
	check "$fs: in the file" pattern check -q -s 4 "$MNT/image" 4M
	check "$fs: in the file" pattern check -q -s 2 -o 17M "$MNT/image" 1M
	check "$fs: holes are holes" cmp -n 12M -i 4M:0 "$MNT/image" /dev/zero
	check "$fs: fallocated is zero" \
		cmp -n 1M -i 16M:0 "$MNT/image" /dev/zero
	is "$fs: taken on the disk" "$(($(stat -c '%b / 2048' "$MNT/image")))" 8
	end_fs
done
