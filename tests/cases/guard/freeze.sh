#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: While the file system below is frozen nothing is written to its disk,
#   by the mapped path or another. Reads go on, and writes do when it is thawed.
# modes: side-by-side
# machines: stable-side-by-side
# timeout: 400
. tests/lib/guard.sh
programs loopdev pattern keeper

# written_sectors - of the disk below, ever
written_sectors() {
	local stat
	read -ra stat \
		<"/sys/block/$(basename "$(readlink -f /dev/mapper/below)")/stat"
	echo "${stat[6]}"
}

for fs in ext4 xfs; do
	begin_fs "$fs"
	later thaw "$MNT"
	written "$MNT/image" 8M 1
	dev=$(attach "$MNT/image")
	wait_mapped "$dev"
	begin_writes "$dev" 4M -b 16k -t 4
	for round in 1 2 3; do
		mapped=$(ios "$dev" mapped)
		wait_until 20 more_ios "$dev" mapped $((mapped + 10))
		frozen=$(ios "$dev" file_frozen)
		check "$fs: freeze" fsfreeze -f "$MNT"
		# Each of the four writers has one
		wait_until 20 more_ios "$dev" file_frozen $((frozen + 3))
		before=$(written_sectors)
		goes_mapped "$fs: $round: reads while it is frozen" "$dev"
		check "$fs: $round: what they read" \
			pattern check -d -q -s 1 -o 4M "$dev" 4M
		sleep 0.3
		is "$fs: $round: sectors written while it was frozen" \
			"$(($(written_sectors) - before))" 0
		check "$fs: thaw" fsfreeze -u "$MNT"
		mapped=$(ios "$dev" mapped)
		wait_until 20 more_ios "$dev" mapped $((mapped + 10))
	done
	end_writes "$fs: nothing was lost"
	detach "$dev"
	check "$fs: in the file" keeper check -b 16k -m "$WORK/model" \
		"$MNT/image" 4M
	end_fs
done
