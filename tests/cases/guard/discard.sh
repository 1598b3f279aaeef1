#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: A range of a mapped device that is discarded or zeroed, with writes
#   going on, reads as zeros and leaves the map. Writes elsewhere aren't lost.
#   The freed blocks are free: a file that gets them keeps its data.
# modes: side-by-side
# machines: lts-side-by-side
# cpus: 2
# timeout: 400
. tests/lib/guard.sh
programs loopdev pattern keeper

for fs in ext4 xfs; do
	begin_mapped "$fs" 16M
	begin_writes "$dev" 8M -b 16k -t 4
	for at in 8 9 10 11; do
		check "$fs: discard at ${at}M" blkdiscard -o ${at}M -l 1M "$dev"
		check "$fs: zeros at $((at + 4))M" \
			blkdiscard -z -o $((at + 4))M -l 1M "$dev"
	done
	check "$fs: what was discarded" cmp -n 8M -i 8M:0 "$dev" /dev/zero
	# The rest is mapped again, though writes go on
	wait_until 30 maps "$dev" $((8 << 20))
	is "$fs: what is mapped" "$(loop_stat "$dev" mapped_bytes)" $((8 << 20))
	is "$fs: leases broken by it" "$(broken "$dev")" 0
	check "$fs: a file in its place" written "$MNT/neighbour" 8M 7
	check "$fs: what was discarded, written again" \
		pattern write -d -q -b 64k -s 3 -o 8M "$dev" 8M
	end_writes "$fs: what was not discarded"
	check "$fs: what was discarded and written" \
		pattern check -d -q -b 64k -s 3 -o 8M "$dev" 8M
	check "$fs: the neighbour" pattern check -q -s 7 "$MNT/neighbour" 8M
	wait_mapped "$dev"
	goes_mapped "$fs: all of it again" "$dev"

	# Each CPU remembers what it has looked up. One process, so nobody looks
	# elsewhere on that CPU between the discard and the write.
	for at in 8 9 10 11 12 13; do
		check "$fs: read, discarded and written at ${at}M" \
			taskset -c $((at % 2)) xfs_io -d -c "pread ${at}m 4k" \
			-c "fpunch ${at}m 1m" -c "pwrite -S 7 ${at}m 1m" "$dev"
	done
	sevens() {
		tr '\0' '\7' </dev/zero | head -c 6M
	}
	check "$fs: in the file" cmp -n 6M -i 8M:0 "$MNT/image" <(sevens)
	check "$fs: the device, written again" \
		pattern write -d -q -b 64k -s 3 -o 8M "$dev" 8M
	wait_mapped "$dev"

	# A discard of blocks that are being written: any order will do, but
	# each block has the result of one of them
	begin_writes "$dev" 2M -b 16k -t 2 -e
	for _ in 1 2 3 4 5 6; do
		blkdiscard -o 0 -l 2M "$dev"
	done
	end_writes "$fs: writes to what is discarded"
	check "$fs: and discarded once more" blkdiscard -o 0 -l 2M "$dev"
	check "$fs: is zero" cmp -n 2M "$dev" /dev/zero
	check "$fs: the rest is not" \
		pattern check -d -q -b 64k -s 3 -o 8M "$dev" 8M
	detach "$dev"
	check "$fs: as in the file" cmp -n 2M "$MNT/image" /dev/zero
	check "$fs: the rest" pattern check -q -b 64k -s 3 -o 8M "$MNT/image" 8M
	end_fs
done
