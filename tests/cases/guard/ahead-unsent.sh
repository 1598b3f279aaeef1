#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: Where the disk writes zeroes itself, it isn't sent those of chunks. It
#   is where somebody has allocated the blocks: they stay where they are. So do
#   the blocks of an earlier chunk, and what was written to them. Where the disk
#   can't do it any more, the zeroes are sent, and no write fails.
# modes: side-by-side
# machines: stable-side-by-side
# module: debug
. tests/lib/guard.sh
load_debug
programs loopdev pattern devfsx
begin_tracing
seed

# sparse SIZE - an image that is a hole, attached, and known to be one
sparse() {
	mkimage "$1" "$MNT/image" >/dev/null
	dev=$(attach "$MNT/image")
	allocate "$dev" 64k
	wait_until 30 mapped "$dev"
	udev_settle
	wait_until 20 reads_hole 0 4096
}

# writes AT... - a block of 4k at each, in MiB: $n, how often the file system
# had the disk write zeroes meanwhile, and $bytes, what the disk was sent
writes() {
	local at
	n=$(calls)
	for at; do
		check "$fs: a write" pattern write -d -n -q -b 4k -s "$at" \
			-o "${at}M" "$dev" 4k
	done
	n=$(($(calls) - n))
	for at; do
		check "$fs: it is there" pattern check -d -q -b 4k -s "$at" \
			-o "${at}M" "$dev" 4k
	done
}

# places - where the blocks of the image are
places() {
	sync
	xfs_io -r -c "fiemap -v" "$MNT/image" | awk '$4 > 0 { print $2, $3 }'
}

holes() {
	sparse 32M
	writes 2 4 6 8
	is "$fs: chunks that the disk has zeroed" "$n" 4
	is "$fs: zeroes" "$(loop_stat "$dev" zeroed_bytes)" $((4 * 61440))
	check "$fs: they are read" cmp -n $((15 * 4096)) \
		-i $(((2 << 20) + 4096)):0 "$dev" /dev/zero
	wait_until 30 maps "$dev" $((4 * 65536))
	zeroes_itself no
	writes 10 12 14 16
	is "$fs: where it can't any more" "$n" 0
	zeroes_itself yes
	detach "$dev"
}

preallocated() {
	local before
	rm -f "$MNT/image"
	check "$fs: preallocated" fallocate -l 32M "$MNT/image"
	before=$(places)
	dev=$(attach "$MNT/image")
	allocate "$dev" 64k
	wait_until 30 mapped "$dev"
	wait_until 20 reads_hole 0 4096
	writes 2 4 6 8
	is "$fs: chunks of blocks that somebody has allocated" "$n" 0
	is "$fs: zeroes there" "$(loop_stat "$dev" zeroed_bytes)" \
		$((4 * 61440))
	detach "$dev"
	is "$fs: the blocks" "$(first_and_last "$(places)")" \
		"$(first_and_last "$before")"
}

# first_and_last PLACES - of an image in one piece on the disk, whatever its
# blocks' states are
first_and_last() {
	echo "$1" | tr -s '. ' '\n' | sort -n | sed -n '1p;$p'
}

# A write that begins in the zeroes of a chunk that isn't mapped yet, and ends
# behind them
across() {
	local before
	sparse 8M
	window 60000 CHUNK FILL
	writes 1
	wait_until 20 in_window CHUNK
	before=$(places)
	n=$(calls)
	check "$fs: across its end" pattern write -d -n -q -b 8k -s 9 \
		-o 1084k "$dev" 8k
	is "$fs: zeroed by the disk there" "$(($(calls) - n))" 0
	# ext4 writes the first block without waiting: the rest is by itself.
	[ "$fs" = ext4 ] || is "$fs: zeroes in all" \
		"$(loop_stat "$dev" zeroed_bytes)" $(((60 + 60) * 1024))
	window 0
	check "$fs: the write" pattern check -d -q -b 8k -s 9 -o 1084k \
		"$dev" 8k
	check "$fs: what is before it" pattern check -d -q -b 4k -s 1 -o 1M \
		"$dev" 4k
	is "$fs: the block before it" "$(places | head -n 1 | cut -d. -f1)" \
		"$(echo "$before" | head -n 1 | cut -d. -f1)"
	detach "$dev"
}

model() {
	mkimage $((8 << 20)) "$MNT/image" >/dev/null
	dev=$(attach --block-size 4096 "$MNT/image")
	wait_until 30 mapped "$dev"
	n=$(calls)
	devfsx -f "$MNT/image" -n "$(more 300)" -j 4 -r 200 -s "$SEED" "$dev"
	[ "$(calls)" -gt "$n" ] || fail "$fs: the disk has zeroed nothing"
	detach "$dev"
}

for fs in ext4 xfs; do
	begin_fs "$fs"
	zeroes_itself yes
	count_calls blkdev_issue_zeroout
	holes
	preallocated
	across
	model
	stop_counting
	end_fs
done
