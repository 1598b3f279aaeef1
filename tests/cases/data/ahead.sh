#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: Random operations on a sparse image agree with a model byte for byte
#   while blocks are allocated ahead; what is allocated ahead reads as zeroes,
#   and is mapped at once.
# modes: side-by-side
# timeout: 400
# long: lts
. tests/lib/guard.sh
programs loopdev devfsx pattern
seed

for fs in $(file_systems ext4); do
	begin_fs "$fs"
	for unit in auto 16384 65536 4194304; do
		mkimage $((8 << 20)) "$MNT/image" >/dev/null
		# A write of less than a block is none of a chunk
		dev=$(attach --block-size 4096 "$MNT/image")
		allocate "$dev" "$unit"
		is "$fs $unit: loop/allocate" "$(attr "$dev" loop/allocate)" \
			"$unit"
		wait_until 30 mapped "$dev"
		devfsx -f "$MNT/image" -n "$(more 300)" -j 2 -r 200 -s "$SEED" \
			"$dev"
		SEED=$((SEED + 1))
		[ "$(loop_stat "$dev" zeroed_bytes)" -gt 0 ] ||
			fail "$fs $unit: no zeroes were written"
		[ "$(ios "$dev" mapped)" -gt 100 ] ||
			fail "$fs $unit: next to nothing was mapped"
		detach "$dev"
	done
	rm "$MNT/image"

	# A chunk: one write, and zeroes in all of its 64 KiB
	mkimage $((8 << 20)) "$MNT/image" >/dev/null
	dev=$(attach "$MNT/image")
	allocate "$dev" 65536
	wait_until 30 mapped "$dev"
	wait_until 20 reads_hole 0 4096
	check "$fs: a write to a hole" \
		pattern write -d -n -q -b 4k -s 5 -o 1044k "$dev" 4k
	is "$fs: zeroes written" "$(loop_stat "$dev" zeroed_bytes)" 61440
	wait_until 20 maps "$dev" 65536
	is "$fs: mapped" "$(loop_stat "$dev" mapped_bytes)" 65536
	mapped=$(ios "$dev" mapped)
	check "$fs: a write beside it" \
		pattern write -d -n -q -b 4k -s 6 -o 1084k "$dev" 4k
	check "$fs: and before it" \
		pattern write -d -n -q -b 4k -s 7 -o 1028k "$dev" 4k
	is "$fs: their path" "$(($(ios "$dev" mapped) - mapped))" 2
	sync "$dev"
	detach "$dev"
	check "$fs: in the file" pattern check -q -b 4k -s 5 -o 1044k \
		"$MNT/image" 4k
	check "$fs: in the file" pattern check -q -b 4k -s 6 -o 1084k \
		"$MNT/image" 4k
	check "$fs: in the file" pattern check -q -b 4k -s 7 -o 1028k \
		"$MNT/image" 4k
	check "$fs: zeroes" cmp -n 36k -i 1048k:0 "$MNT/image" /dev/zero
	check "$fs: and before it" cmp -n 12k -i 1032k:0 "$MNT/image" /dev/zero
	is "$fs: taken on the disk" "$(($(stat -c '%b / 2' "$MNT/image")))" 64
	rm "$MNT/image"

	# A run: 4k, then what is left of 64k, then twice as much each time, up
	# to the next multiple of that; in each of six chunks 4k are data
	mkimage $((8 << 20)) "$MNT/image" >/dev/null
	dev=$(attach "$MNT/image")
	allocate "$dev" auto
	wait_until 30 mapped "$dev"
	check "$fs: a run" pattern write -d -n -q -b 4k -s 7 "$dev" 2M
	is "$fs: zeroes of a run" "$(loop_stat "$dev" zeroed_bytes)" \
		$(((2048 - 4 - 6 * 4) * 1024))
	detach "$dev"
	check "$fs: in the file" pattern check -q -b 4k -s 7 "$MNT/image" 2M
	rm "$MNT/image"
	end_fs
done
