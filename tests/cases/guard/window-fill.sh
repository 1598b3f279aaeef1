#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: Blocks that the fill has looked up don't enter the map if they belong
#   to another file by then. Blocks that a discard elsewhere keeps out of the
#   map enter it later. Of a block that is discarded in part nothing stays
#   mapped. A clone that somebody reads meanwhile is found to be one, and a
#   write of a part of a block leaves the rest before. A detach waits for the
#   lookup of one piece of the image, not of all.
# timeout: 300
# modes: side-by-side
# machines: stable-side-by-side
# module: debug
. tests/lib/guard.sh
load_debug
programs loopdev pattern

for fs in $(file_systems xfs); do
	begin_fs "$fs"
	written "$MNT/image" 8M 1
	window 20000 FILL
	dev=$(attach "$MNT/image")
	wait_until 20 in_window FILL
	# The image moves: its old blocks belong to another file
	check "$fs: cut" xfs_io -c "truncate 0" -c "truncate 8m" "$MNT/image"
	free=$(megabytes_free)
	check "$fs: a file in its place" written "$MNT/neighbour" 8M 7
	check "$fs: and another" fallocate -l $((free - 40))M "$MNT/filler"
	check "$fs: written again" written "$MNT/image" 8M 2
	# The next epoch begins before the lookup of this one ends.
	wait_until 15 mapped "$dev"
	window 0
	wait_mapped "$dev"
	check "$fs: what the device has" pattern check -d -q -s 2 "$dev" 8M
	check "$fs: a write to it" pattern write -d -q -b 64k -s 3 "$dev" 8M
	drop_caches
	check "$fs: the neighbour is as it was" \
		pattern check -q -s 7 "$MNT/neighbour" 8M
	check "$fs: the image" pattern check -q -b 64k -s 3 "$MNT/image" 8M
	detach "$dev"

	# Blocks are looked up again if a discard keeps them out of the map
	check "$fs: written once more" written "$MNT/neighbour" 8M 4
	window 20000 FILL
	dev=$(attach "$MNT/neighbour")
	wait_until 20 in_window FILL
	check "$fs: a discard meanwhile" blkdiscard -l 64k "$dev"
	window 0
	wait_mapped "$dev" 7
	check "$fs: after the discard" pattern check -d -q -s 4 -o 1M "$dev" 7M

	# Of a block that is discarded in part nothing stays in the map
	bytes=$(loop_stat "$dev" mapped_bytes)
	window 20000 FILL
	check "$fs: a part of a block" blkdiscard -o $((4 << 20)) -l 512 "$dev"
	wait_until 20 in_window FILL
	is "$fs: mapped then" "$(loop_stat "$dev" mapped_bytes)" \
		$((bytes - 4096))
	window 0
	detach "$dev"

	rm "$MNT/filler"

	# Of a clone that isn't known to be one a write of a part of a block
	# leaves the rest. Somebody reads it while it is looked up: it is found
	# to be one all the same
	if [ "$fs" = xfs ]; then
		set_helper ""
		mkimage 8M "$MNT/clone" >/dev/null
		pattern write -q -s 5 -o 4M "$MNT/clone" 4M
		check "xfs: a clone" \
			cp --reflink=always "$MNT/clone" "$MNT/twin"
		sync
		window 2000 FILL
		dev=$(attach "$MNT/clone")
		wait_until 20 in_window FILL
		udev_settle
		at=$((4 << 20))
		pattern write -d -n -q -b 512 -s 6 -o $((at + 512)) "$dev" 512
		cat "$MNT/clone" >/dev/null
		window 0
		drop_caches
		check "xfs: what is before the write" \
			cmp -n 512 -i "$at" "$dev" "$MNT/twin"
		check "xfs: the write" pattern check -d -q -b 512 -s 6 \
			-o $((at + 512)) "$dev" 512
		check "xfs: what is behind it" \
			cmp -n 3072 -i $((at + 1024)) "$dev" "$MNT/twin"
		wait_until 20 reads_shared 1024
		detach "$dev"
		rm "$MNT/clone" "$MNT/twin"
	fi

	# Of 2,048 pieces: looked up in two goes, of 12 s each
	pattern write -q -b 4k -k 8k "$MNT/large" 16M
	window 12000 FILL
	dev=$(attach "$MNT/large")
	wait_until 20 in_window FILL
	(loopdev detach "$dev" && touch "$WORK/detached") &
	wait_until 20 test -e "$WORK/detached"
	wait $!
	window 0
	rm "$WORK/detached"
	echo "ok: $fs: detached while it was filled"

	# A detach leaves the fill behind; mapping off waits for it to stop
	window 12000 FILL
	dev=$(attach "$MNT/large")
	wait_until 20 in_window FILL
	(echo 0 >"/sys/block/${dev#/dev/}/loop/mapping" &&
		touch "$WORK/off") &
	wait_until 20 test -e "$WORK/off"
	wait $!
	window 0
	rm "$WORK/off"
	echo "ok: $fs: mapping off while it was filled"
	detach "$dev"
	rm "$MNT/large"
	end_fs
done
