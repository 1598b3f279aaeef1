#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: after a power cut all is there that was fsynced through the mapped path, while the image grew, was mapped as it grew, and others broke its lease
# modes: side-by-side
# disks: nvme:1G nvme:3G
# timeout: 400
. tests/guest/lib.sh
. tests/programs/power.sh

# Who opens the image ends the map, and it comes back.
power_meanwhile() {
	while :; do
		sleep 0.2
		exec 5<"$1"
		exec 5<&-
	done
}

power_afterwards() {
	local mapped file broken
	mapped=$(loop_stat "$1" ios_mapped)
	file=$(loop_stat "$1" ios_file)
	broken=$(loop_stat "$1" epochs_broken)
	echo "I/O: $mapped mapped, $file through the file system; $broken epochs broken"
	[ "$mapped" -gt 20 ] || fail "next to nothing was mapped"
	[ "$file" -gt 10 ] || fail "next to nothing went through the file system"
	[ "$broken" -gt 0 ] || fail "no epoch was broken"
}

seed
map_images
power_disks
below=ext4 above=xfs
[ "$KERNEL" != lts ] || below=xfs above=ext4
power_run $below $above direct "$(more 12)" "$SEED"
power_check $below $above direct "$SEED" "$(more 2)"
[ "$bad" = 0 ] || fail "$bad points of the log are not what was promised"
