#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: Zeroes and discards that end in the middle of a block of the file
#   system below leave nothing in its page cache: a later mapped write next to
#   them is still there after a flush.
# modes: side-by-side
# machines: lts-side-by-side
# timeout: 400
. tests/lib/guard.sh
programs loopdev pattern

for fs in ext4 xfs; do
	begin_mapped "$fs" 8M
	for how in fpunch fzero; do
		# Not blkdiscard, which flushes
		check "$fs: $how" xfs_io -c "$how $((1 << 20 | 1024)) 64k" \
			"$dev"
		# All but that range is mapped again
		wait_until 20 maps "$dev" $(((8 << 20) - (64 << 10)))
		mapped=$(ios "$dev" mapped)
		check "$fs: before it" \
			pattern write -d -n -q -b 1024 -s 2 -o 1M "$dev" 1024
		check "$fs: behind it" \
			pattern write -d -n -q -b 1024 -s 3 \
			-o $((1 << 20 | 66560)) "$dev" 1024
		more_ios "$dev" mapped $((mapped + 1)) ||
			fail "$fs: these were not mapped"
		check "$fs: a flush" sync "$dev"
		check "$fs: before it" \
			pattern check -d -q -b 1024 -s 2 -o 1M "$dev" 1024
		check "$fs: the range" \
			cmp -n 64K -i $((1 << 20 | 1024)):0 "$dev" /dev/zero
		check "$fs: behind it" \
			pattern check -d -q -b 1024 -s 3 \
			-o $((1 << 20 | 66560)) "$dev" 1024

		# Nor does it leave a page that the next one would start from
		check "$fs: before it" \
			pattern write -d -n -q -b 1024 -s 4 -o 1M "$dev" 1024
		check "$fs: $how, once more" \
			xfs_io -c "$how $((1 << 20 | 1024)) 1024" "$dev"
		check "$fs: a flush" sync "$dev"
		check "$fs: before it" \
			pattern check -d -q -b 1024 -s 4 -o 1M "$dev" 1024
		check "$fs: all of it written again" \
			pattern write -d -q -b 64k -s 1 "$dev" 8M
		wait_mapped "$dev"
	done
	is "$fs: leases broken by it" "$(broken "$dev")" 0
	detach "$dev"
	drop_caches
	check "$fs: the file" pattern check -q -b 64k -s 1 "$MNT/image" 8M
	end_fs
done
