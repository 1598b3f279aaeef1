#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: An image of many extents, which the map has in tables, agrees with a
#   model byte for byte through random writes, discards and zeroing, in the
#   middle of an extent and in the holes, too. What the map has in the end is
#   what the file has, whatever was removed and added.
# modes: side-by-side
# machines: stable-side-by-side lts-side-by-side
# debug: also
# cpus: 2
# timeout: 400
. tests/lib/guard.sh
programs devfsx pattern
seed

# in_blocks FILE - how many bytes of it have blocks that are written. Who opens
# it may break the lease.
in_blocks() {
	filefrag -v -b1 "$1" | awk -F : '
		/^ *[0-9]+:/ && !/unwritten/ { bytes += $4 }
		END { print bytes + 0 }'
}

# map_settles - nothing is added for five seconds, and so much is mapped: $now
map_settles() {
	local same=0 before=
	while [ $same -lt 5 ]; do
		now=$(loop_stat "$dev" mapped_bytes)
		mapped "$dev" && [ "$now" = "$before" ] &&
			same=$((same + 1)) || same=0
		before=$now
		sleep 1
	done
}

extents=1200
for fs in ext4 xfs; do
	begin_fs "$fs"
	for round in 1 2 3; do
		# 16 KiB, then a hole of 8 KiB
		rm -f "$MNT/image"
		pattern write -q -b 16k -k 24k "$MNT/image" $((extents * 24576))
		truncate -s $((extents * 24576)) "$MNT/image"
		bytes=$(in_blocks "$MNT/image")
		dev=$(attach "$MNT/image")
		wait_until 60 maps "$dev" "$bytes"
		is "$fs, round $round: bytes mapped" \
			"$(loop_stat "$dev" mapped_bytes)" "$bytes"
		echo "$fs, round $round: $(loop_stat "$dev" mapped_extents) extents"
		devfsx -f "$MNT/image" -n "$(more 60)" -j 2 -s "$SEED" "$dev"
		map_settles
		is "$fs, round $round: bytes mapped after it" "$now" \
			"$(in_blocks "$MNT/image")"
		# All in one go: no table is left.
		if [ "$round" = 3 ]; then
			check "$fs: all is discarded" blkdiscard "$dev"
			is "$fs: what is mapped then" \
				"$(loop_stat "$dev" mapped_bytes)" 0
			is "$fs: in so many extents" \
				"$(loop_stat "$dev" mapped_extents)" 0
			check "$fs: it is zero" cmp -n $((extents * 24576)) \
				"$dev" /dev/zero
		fi
		detach "$dev"
		SEED=$((SEED + 1))
	done
	end_fs
done
