#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: Direct I/O works from and to memory in pieces smaller than the sectors,
#   with gaps between them, which 7.3 takes, unlike 6.12, and which an NVMe disk
#   of 4096-byte sectors refuses. Direct I/O stays on, and the image stays
#   mapped.
# modes: side-by-side
# machines: stable-side-by-side
. tests/lib/guard.sh
programs loopdev pattern ragged

for fs in $(file_systems xfs) disk; do
	ram_disk ragged 4096 512 virt_boundary=1
	if [ "$fs" = disk ]; then
		image=$DISK
	else
		on_disk "$fs" "$DISK"
		image=$MNT/image
		written "$image" 4M 1
		truncate -s 8M "$image"
	fi
	dev=$(attach --direct --block-size 4096 "$image")
	wait_mapped "$dev" 4
	mapped=$(ios "$dev" mapped)
	check "$fs: into blocks that are mapped" ragged "$dev" 0 1M
	more_ios "$dev" file_alignment 0 ||
		fail "$fs: no I/O is counted as not aligned"
	check "$fs: into a hole" ragged "$dev" 5M 1M
	is "$fs: direct" "$(attr "$dev" loop/dio_reason)" "direct"
	more_ios "$dev" mapped "$mapped" || fail "$fs: nothing was mapped"
	wait_until 20 mapped "$dev"
	detach "$dev"
	[ "$fs" = disk ] || unmount "$MNT"
	end_disk ragged
done
