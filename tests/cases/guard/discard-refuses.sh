#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: A discard, or write-zeroes by way of a hole, is refused as fallocate(2)
#   is when the image has become swap of the kernel's, immutable or append-only.
#   Its blocks stay where they are.
# modes: side-by-side
# machines: stable-side-by-side
# timeout: 200
. tests/lib/guard.sh
programs loopdev pattern

swap_off() {
	swapoff "$1" 2>/dev/null || true
}

chattr_back() {
	[ ! -e "$1" ] || chattr -ia "$1"
}

# where - the image's blocks are
where() {
	filefrag -v "$MNT/image" |
		awk '$1 ~ /^[0-9]+:$/ { print $2, $3, $4, $5 }'
}

# refuses WHAT - to give up blocks
refuses() {
	local before
	before=$(where)
	refused "$fs: $1: a discard" "*" blkdiscard -o 1M -l 1M "$dev"
	# The driver may write zeroes instead
	blkdiscard -z -o 4M -l 1M "$dev" 2>/dev/null || true
	is "$fs: $1: where it is" "$(where)" "$before"
}

for fs in ext4 xfs; do
	begin_mapped "$fs" 8M
	check "$fs: the image as swap space" mkswap -q "$MNT/image"
	chmod 600 "$MNT/image"
	# xfs takes no swap file whose inode waits for the log
	sync "$MNT/image"
	later swap_off "$MNT/image"
	swapon "$MNT/image"
	refuses "swapped to"
	swapoff "$MNT/image"
	later chattr_back "$MNT/image"
	for flag in i a; do
		chattr "+$flag" "$MNT/image"
		refuses "chattr +$flag"
		chattr "-$flag" "$MNT/image"
	done
	check "$fs: a discard afterwards" blkdiscard -o 1M -l 1M "$dev"
	detach "$dev"
	end_fs
done
