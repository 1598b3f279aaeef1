#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: e4defrag and xfs_fsr move the blocks of an image that is being written
#   to. Nothing is lost, others can have the old blocks, and the image is mapped
#   at its new place.
# modes: side-by-side
# machines: stable-side-by-side
# cpus: 2
# timeout: 400
. tests/lib/guard.sh
programs loopdev pattern keeper

# first_block FILE - where it begins on the disk
first_block() {
	filefrag -v "$1" | awk '$1 == "0:" { print $4; exit }'
}

defragment() {
	case $fs in
	ext4) e4defrag -v "$MNT/image" ;;
	xfs) xfs_fsr -v "$MNT/image" ;;
	esac
}

for fs in ext4 xfs; do
	begin_fs "$fs"
	fragmented "$MNT/image" 4
	dev=$(attach "$MNT/image")
	pattern write -d -q -s 1 "$dev" 4M
	wait_mapped "$dev"
	extents=$(loop_stat "$dev" mapped_extents)
	[ "$extents" -gt 3 ] ||
		fail "$fs: only $extents extents: not fragmented"
	where=$(first_block "$MNT/image")
	wait_mapped "$dev"
	begin_writes "$dev" 2M -b 16k -t 4
	breaks "defragment" defragment
	# xfs_fsr gives a file up that is written to while it copies
	if [ "$fs" = xfs ]; then
		end_writes "$fs: nothing is lost"
		# Nor does it move one whose times change, as they do after an
		# epoch
		for _ in 1 2 3 4 5; do
			check "$fs: defragment what nobody writes to" defragment
			[ "$(first_block "$MNT/image")" = "$where" ] || break
			sleep 1
		done
	fi
	written "$MNT/neighbour" 8M 7
	sync
	wait_mapped "$dev"
	if [ "$fs" = ext4 ]; then
		mapped=$(ios "$dev" mapped)
		wait_until 20 more_ios "$dev" mapped $((mapped + 20))
		end_writes "$fs: nothing is lost"
	fi
	[ "$(first_block "$MNT/image")" != "$where" ] ||
		fail "$fs: nothing was moved"
	wait_mapped "$dev"
	now=$(loop_stat "$dev" mapped_extents)
	[ "$now" -lt "$extents" ] || fail "$fs: $now extents, $extents before"
	check "$fs: the rest of it" pattern check -d -q -s 1 -o 2M "$dev" 2M
	check "$fs: written where it is now" \
		pattern write -d -q -s 2 -o 2M "$dev" 2M
	detach "$dev"
	drop_caches
	check "$fs: in the file" pattern check -q -s 2 -o 2M "$MNT/image" 2M
	check "$fs: in the file" keeper check -b 16k -m "$WORK/model" \
		"$MNT/image" 2M
	check "$fs: the neighbour" pattern check -q -s 7 "$MNT/neighbour" 8M
	end_fs
done
