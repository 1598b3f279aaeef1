#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: The fill of a large preallocated image asks its file system for data a
#   few times, not once for each chunk. Still, what is written is mapped.
#   Neither a detach nor another setting waits for the fill.
# modes: side-by-side
# machines: stable-side-by-side
# disks: nvme:1100G
. tests/lib/guard.sh
programs loopdev pattern

# The most seeks that a fill may take. The image has more than thirty times as
# many chunks of 4 MiB.
most=500

begin_tracing

# few WHAT BEFORE
few() {
	local n=$(($(calls) - $2))
	[ "$n" -le "$most" ] || fail "$fs: $1: asked for data $n times"
	echo "ok: $fs: $1: asked for data $n times"
}

# written_places PATH - four pieces of 1 MiB, far apart
written_places() {
	local gib
	for gib in 0 $((size / 3)) $((size / 2)) $((size - 1)); do
		pattern write -d -q -s 1 -o "${gib}g" "$1" 1M
	done
}

for fs in xfs ext4; do
	modprobe "$fs"
	if [ "$fs" = xfs ]; then
		size=512 function=xfs_file_llseek
		on_disk "$fs" "$(the_disk 1)" -K -l size=64m
	else
		size=64 function=ext4_llseek
		carve "$(the_disk 1)" below 0 $((80 << 10))
		on_disk "$fs" /dev/mapper/below -E nodiscard -N 1024
	fi
	count_calls "$function"
	check "$fs: preallocated" fallocate -l "${size}G" "$MNT/image"

	dev=$(attach "$MNT/image")
	wait_until 30 mapped "$dev"
	before=$(calls)
	check "$fs: buffered" loopdev direct "$dev" 0
	few "made buffered while it is filled" "$before"
	loopdev direct "$dev" 1
	wait_until 30 mapped "$dev"
	before=$(calls)
	detach "$dev"
	few "detached while it is filled" "$before"

	written_places "$MNT/image"
	sync
	before=$(calls)
	dev=$(attach "$MNT/image")
	wait_mapped "$dev" 4
	sleep 2
	few "all of it" "$before"
	written_places "$dev"
	detach "$dev"
	unmount "$MNT"
	stop_counting
done
