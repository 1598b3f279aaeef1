#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: As power/cut, when the disk had written any part of its cache since the
#   last flush.
# disks: nvme:1G nvme:3G
# timeout: 400
# kernels: stable
# modes: side-by-side
. tests/lib/power.sh

seed
power_disks
stacks=ext4:direct:xfs
[ -z "${LONG-}" ] || stacks+=" xfs:direct:ext4"
for ((n = 0; n < $(more 1); n++)); do
	for stack in $stacks; do
		IFS=: read -r below how above <<<"$stack"
		power_run "$below" "$above" "$how" 3 $((SEED + n))
		# Writes that are torn at one point must not stay for the next
		# one: each point is replayed from the start.
		power_points 3 >"$WORK/torn"
		while read -r to kind mark; do
			dm_snapshot torn base written
			logreplay -t $((SEED + n + to)) run /dev/mapper/log \
				/dev/mapper/torn 0 "$to"
			status=0
			power_look torn "$below" "$above" "$how" "$mark" \
				$((SEED + n)) >"$WORK/look" 2>&1 || status=$?
			dm_remove torn
			[ "$status" = 0 ] ||
				fail "$stack, seed $((SEED + n)): entry $to" \
					"($kind, round $mark):" \
					"$(cat "$WORK/look")"
			echo "ok: $stack: entry $to ($kind, round $mark)"
		done <"$WORK/torn"
	done
done
