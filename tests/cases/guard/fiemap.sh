#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: The fill counts extents, but not those of ext4 in 6.12, whose fiemap
#   takes no lock: ext4 would remember extents that a truncate frees meanwhile.
# modes: side-by-side
# machines: stable-side-by-side lts-side-by-side
. tests/lib/guard.sh
programs loopdev pattern

begin_tracing
probe_off() {
	[ -e "$tracing/events/counted" ] || return 0
	echo 0 >"$tracing/events/counted/enable"
	echo "-:counted/fiemap" >>"$tracing/kprobe_events"
}
later probe_off

# counted - how often there was a fiemap
counted() {
	awk '$1 == "fiemap" { print $2 }' "$tracing/kprobe_profile"
}

for fs in ext4 xfs; do
	begin_fs "$fs"
	function=ext4_fiemap
	[ "$fs" = ext4 ] || function=xfs_vn_fiemap
	echo "p:counted/fiemap $function" >>"$tracing/kprobe_events"
	echo 1 >"$tracing/events/counted/enable"
	written "$MNT/image" 8M 1
	before=$(counted)
	dev=$(attach "$MNT/image")
	wait_mapped "$dev"
	n=$(($(counted) - before))
	if [ "$fs-$KERNEL" = ext4-lts ]; then
		is "$fs: counts of extents" "$n" 0
	elif [ "$n" -eq 0 ]; then
		fail "$fs: the fill has counted no extents"
	fi
	# The probe works.
	before=$(counted)
	filefrag "$MNT/image" >"$WORK/frag"
	[ "$(counted)" -gt "$before" ] || fail "$fs: filefrag isn't counted"
	detach "$dev"
	probe_off
	end_fs
done
