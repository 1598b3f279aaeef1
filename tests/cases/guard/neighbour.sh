#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: Holes are punched into an image, and its end is cut off, while the
#   device is written to. Other files that get the blocks have nothing but what
#   was written to them.
# modes: side-by-side
# machines: stable-side-by-side
# cpus: 2
# timeout: 400
. tests/lib/guard.sh
programs loopdev pattern other keeper

for fs in ext4 xfs; do
	begin_fs "$fs"
	written "$MNT/image" 32M 1
	# Little else is free: the others get the blocks that the image loses
	sync
	free=$(megabytes_free)
	check "$fs: a full file system" \
		fallocate -l $((free - 12))M "$MNT/filler"
	dev=$(attach "$MNT/image")
	wait_mapped "$dev"
	# The kept part is verified; the rest is only written to
	begin_writes "$dev" 8M -b 16k -t 2
	kept=$keeper
	keeper write -e -b 16k -t 2 -o 8M -m "$WORK/model2" "$dev" \
		24M >"$WORK/keeper2" 2>&1 &
	careless=$!
	later stop_writes $careless
	for round in 1 2 3; do
		wait_until 30 mapped "$dev"
		mapped=$(ios "$dev" mapped)
		wait_until 20 more_ios "$dev" mapped $((mapped + 10))
		xfs_io -c "fpunch 8m 8m" "$MNT/image"
		written "$MNT/neighbour$round-1" 4M "7$round"
		wait_until 30 mapped "$dev"
		mapped=$(ios "$dev" mapped)
		wait_until 20 more_ios "$dev" mapped $((mapped + 10))
		other truncate "$MNT/image" 24M
		written "$MNT/neighbour$round-2" 4M "8$round"
		other truncate "$MNT/image" 32M
		drop_caches
		check "$fs: round $round: the first neighbour" \
			pattern check -q -s "7$round" \
			"$MNT/neighbour$round-1" 4M
		check "$fs: round $round: the second" \
			pattern check -q -s "8$round" \
			"$MNT/neighbour$round-2" 4M
		rm "$MNT/neighbour$round-1" "$MNT/neighbour$round-2"
	done
	kill -TERM "$careless"
	wait "$careless" || fail "$(cat "$WORK/keeper2")"
	keeper=$kept
	end_writes "$fs: what nobody punched"
	detach "$dev"
	check "$fs: is in the file" keeper check -b 16k -m "$WORK/model" \
		"$MNT/image" 8M
	end_fs
done
