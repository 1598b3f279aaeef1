#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: After a power cut at each mark, and at some of the flushes and FUA
#   writes, the file systems below and above are clean, and everything that was
#   fsynced above is there.
# modes: side-by-side
# machines: stable-side-by-side
# disks: nvme:1G nvme:3G
# timeout: 400
. tests/lib/power.sh

seed
power_disks
# power/torn has ext4 below direct I/O
stacks="xfs:direct:ext4 ext4:buffered:xfs"
[ -z "${LONG-}" ] || stacks+=" ext4:direct:ext4 xfs:direct:xfs"
# one stack will do there: the kernels differ little in this
[ "$KERNEL" != lts ] || stacks=xfs:direct:xfs
for ((n = 0; n < $(more 1); n++)); do
	for stack in $stacks; do
		IFS=: read -r below how above <<<"$stack"
		power_run "$below" "$above" "$how" 4 $((SEED + n))
		power_check "$below" "$above" "$how" $((SEED + n)) $points
		[ "$bad" = 0 ] ||
			fail "$stack, seed $((SEED + n)): $bad points are wrong"
	done
done
