#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: How much of what was allocated ahead isn't written yet is known to the
#   block: whichever way a write goes, and whoever writes on two CPUs at once.
#   What was freed counts no more when it is written again.
# modes: side-by-side
# cpus: 2
# timeout: 300
. tests/lib/guard.sh
programs loopdev pattern

# sparse SIZE - $dev, of a new image that is a hole, with 64 KiB ahead
sparse() {
	rm -f "$MNT/image"
	mkimage "$1" "$MNT/image" >/dev/null
	dev=$(attach "$MNT/image")
	allocate "$dev" 65536
	wait_until 30 mapped "$dev"
	wait_until 20 reads_hole 0 4096
}

# spare WHAT BLOCKS - so many blocks of 4 KiB of $dev are allocated ahead and
# not written
spare() {
	is "$fs: spare: $1" "$(loop_stat "$dev" spare_bytes)" $(($2 * 4096))
}

# wrote OFFSET SIZE [OPTION]... - write to $dev, in blocks of 4 KiB
wrote() {
	local at=$1 size=$2
	shift 2
	check "$fs: a write at $at" \
		pattern write -d -n -q -b 4k -s 3 "$@" -o "$at" "$dev" "$size"
}

for fs in $(file_systems ext4); do
	begin_fs "$fs"
	sparse 8M
	wrote 1044k 4k
	spare "a chunk" 15
	wait_until 20 maps "$dev" 65536
	wrote 1084k 4k
	wrote 1028k 4k
	spare "two writes" 13
	check "$fs: a read" cmp -n 64k -i 1M "$dev" "$MNT/image"
	wrote 1028k 4k
	spare "the same write again" 13
	detach "$dev"

	sparse 8M
	allocate "$dev" auto
	wrote 0 2M
	spare "a run" 0
	[ "$(loop_stat "$dev" zeroed_bytes)" -gt $((1 << 20)) ] ||
		fail "$fs: next to nothing was allocated ahead"
	detach "$dev"

	# Two parts of 4 MiB, with a chunk in each 64 KiB of them; data before
	# and behind
	rm "$MNT/image"
	pattern write -q -s 1 "$MNT/image" 4M
	truncate -s 16M "$MNT/image"
	pattern write -q -s 1 -o 12M "$MNT/image" 4M
	dev=$(attach "$MNT/image")
	allocate "$dev" 65536
	wait_mapped "$dev" 8
	wait_until 20 reads_hole $((8 << 20)) 4096
	wrote 4M 8M -k 64k
	spare "chunks" $((128 * 15))
	wait_mapped "$dev" 16
	wrote 4M 8M -k 8k
	spare "every other block" $((128 * 8))
	wrote 8188k 8k
	spare "a write to both parts" $((128 * 8 - 1))
	wrote 0 4M
	wrote 12M 4M
	spare "writes before and behind" $((128 * 8 - 1))
	check "$fs: a write of less than a block" \
		pattern write -d -n -q -b 512 -s 3 -o 4101k "$dev" 512
	spare "a part of a block" $((128 * 8 - 2))
	wrote 4132k 4k
	check "$fs: a write of four blocks" \
		pattern write -d -n -q -b 16k -s 3 -o 4144k "$dev" 16k
	spare "four blocks, of which two were spare" $((128 * 8 - 5))
	check "$fs: a large write" \
		pattern write -d -n -q -b 128k -s 3 -o 3968k "$dev" 256k
	spare "a large write" $((126 * 8 - 1))
	check "$fs: a discard" blkdiscard -o 6M -l 64k "$dev"
	spare "a discard" $((125 * 8 - 1))
	echo 0 >"/sys/block/${dev#/dev/}/loop/mapping"
	wrote 7172k 4k
	spare "through the file system" $((125 * 8 - 2))
	allocate "$dev" off
	wrote 7180k 4k
	spare "and with nothing allocated ahead" $((125 * 8 - 3))
	echo 1 >"/sys/block/${dev#/dev/}/loop/mapping"
	wait_until 30 maps "$dev" $(((16 << 20) - 65536))
	wrote 0 12M
	spare "all of it" 0
	detach "$dev"
	check "$fs: in the file" pattern check -q -b 4k -s 3 "$MNT/image" 16M

	# Somebody else frees chunks, and others come in their place: what was
	# data of theirs is spare now, and the other way around
	sparse 16M
	wrote 0 8M -k 64k
	spare "chunks" $((128 * 15))
	sync "$dev"
	check "$fs: punched" fallocate -p -l 8M "$MNT/image"
	wait_until 30 mapped "$dev"
	wait_until 20 reads_hole $((4 << 20)) 4096
	wrote 4k 8188k -k 64k
	spare "others" $((128 * 15))
	detach "$dev"

	# Each block once, by four writers
	sparse 32M
	check "$fs: four writers" fio --name=writers --filename="$dev" \
		--rw=randwrite --bs=4k --direct=1 --ioengine=libaio \
		--iodepth=8 --numjobs=4 --size=8M --offset_increment=8M \
		--random_generator=lfsr --minimal --output="$WORK/fio"
	spare "four writers" 0
	[ "$(ios "$dev" mapped)" -gt 1000 ] ||
		fail "$fs: next to nothing was mapped"
	detach "$dev"
	end_fs
done
