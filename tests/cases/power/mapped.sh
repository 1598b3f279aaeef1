#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: After a power cut all is there that was fsynced through the mapped
#   path, while the image grew, lost discarded blocks again, and had its lease
#   broken by others; with allocation ahead (stable) and without (lts).
# modes: side-by-side
# disks: nvme:1G nvme:3G
# timeout: 400
. tests/lib/guard.sh
. tests/lib/power.sh

# An opener of the image ends the epoch, and another epoch begins. A discard
# removes blocks from the map, and a later write allocates new ones.
power_meanwhile() {
	trap exit TERM # after fstrim, which keeps the file system busy
	while :; do
		wait_until 30 mapped "$2"
		exec 5<>"$1"
		exec 5<&-
		fstrim "$WORK/above"
		printf .
	done
}

power_afterwards() {
	local mapped file broken discards
	mapped=$(loop_stat "$1" ios_mapped)
	file=$(loop_stat "$1" ios_file)
	broken=$(loop_stat "$1" epochs_broken)
	# Documentation/block/stat.rst
	discards=$(awk '{ print $12 }' "/sys/block/${1#/dev/}/stat")
	[ "$ALLOCATE" != 64k ] || [ "$(loop_stat "$1" zeroed_bytes)" -gt 0 ] ||
		fail "nothing was allocated ahead"
	echo "I/O: $mapped mapped, $file through the file system;" \
		"$broken epochs broken; $discards discards"
	[ "$mapped" -gt 20 ] || fail "next to nothing was mapped"
	[ "$file" -gt 10 ] ||
		fail "next to nothing went through the file system"
	[ "$broken" -gt 0 ] || fail "no epoch was broken"
	[ "$discards" -gt 10 ] || fail "next to nothing was discarded"
}

seed
power_disks
units=(64k auto off)
# Each kernel with one half of it
below=ext4 above=xfs first=0
[ "$KERNEL" != lts ] || below=xfs above=ext4 first=2
for ((n = 0; n < $(more 1); n++)); do
	ALLOCATE=${units[(first + n) % 3]}
	power_run $below $above direct 12 $((SEED + n))
	echo "allocated ahead: $ALLOCATE"
	power_check $below $above direct $((SEED + n)) $points
	[ "$bad" = 0 ] ||
		fail "seed $((SEED + n)): $bad points of the log are wrong"
done
