#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: The fill counts extents, but not those of ext4 in 6.12, whose fiemap
#   takes no lock: ext4 would remember extents that a truncate frees meanwhile.
#   Nor does the command's status, which looks for shared blocks.
# modes: side-by-side
# machines: stable-side-by-side lts-side-by-side
. tests/lib/cli.sh
. tests/lib/guard.sh
programs loopdev pattern

begin_tracing

for fs in ext4 xfs; do
	begin_fs "$fs"
	function=ext4_fiemap
	[ "$fs" = ext4 ] || function=xfs_vn_fiemap
	count_calls "$function"
	written "$MNT/image" 8M 1
	before=$(calls)
	dev=$(attach "$MNT/image")
	wait_mapped "$dev"
	n=$(($(calls) - before))
	if [ "$fs-$KERNEL" = ext4-lts ]; then
		is "$fs: counts of extents" "$n" 0
	elif [ "$n" -eq 0 ]; then
		fail "$fs: the fill has counted no extents"
	fi
	check "$fs: off" "$FLOOP" set "$dev" --mapping off
	before=$(calls)
	is "$fs: shared" "$(status "$dev" shared)" 0
	n=$(($(calls) - before))
	if [ "$fs" = ext4 ]; then
		is "$fs: counts of extents by status" "$n" 0
	elif [ "$n" -eq 0 ]; then
		fail "$fs: status has counted no extents"
	fi
	# The probe works.
	before=$(calls)
	filefrag "$MNT/image" >"$WORK/frag"
	[ "$(calls)" -gt "$before" ] || fail "$fs: filefrag isn't counted"
	detach "$dev"
	stop_counting
	end_fs
done
