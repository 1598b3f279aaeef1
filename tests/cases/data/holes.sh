#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: A read of a hole, or of blocks that were never written, is answered
#   without the disk and without the file system, and what has been written
#   there a moment ago is read. Random operations on a sparse image agree with a
#   model byte for byte.
# modes: side-by-side
# timeout: 400
# long: lts
. tests/lib/guard.sh
programs loopdev devfsx pattern
seed

# reads_of DEVICE - the number of reads in its statistics
reads_of() {
	local name
	name=$(readlink -f "$1")
	awk '{ print $1 }' "/sys/block/${name#/dev/}/stat"
}

for fs in $(file_systems ext4); do
	begin_fs "$fs"
	mkimage 32M "$MNT/image" >/dev/null
	fallocate -o 16M -l 4M "$MNT/image"
	pattern write -q -s 1 -o 8M "$MNT/image" 1M
	dev=$(attach "$MNT/image")
	wait_until 30 maps "$dev" $((1 << 20))
	wait_until 20 reads_hole 0 4096
	udev_settle
	disk=$(reads_of /dev/mapper/below)
	file=$(ios "$dev" file)
	for at in 0 $((5 << 20)) $(((16 << 20) - 65536)) $((18 << 20)) \
		$(((32 << 20) - 65536)); do
		check "$fs: zeroes at $at" reads_hole "$at" 65536
	done
	is "$fs: reads through the file" "$(($(ios "$dev" file) - file))" 0
	is "$fs: reads of the disk" \
		"$(($(reads_of /dev/mapper/below) - disk))" 0
	completed=$(reads_of "$dev")
	reads_hole 0 4096
	is "$fs: reads in the device's statistics" \
		"$(($(reads_of "$dev") - completed))" 1

	# Across the edges of the data
	dd if="$dev" of="$WORK/read" bs=3M count=1 skip=7M \
		iflag=direct,skip_bytes status=none
	check "$fs: a hole, data, a hole" cmp -n 3M -i 0:7M "$WORK/read" \
		"$MNT/image"
	wait_until 20 reads_hole 0 4096
	breaks=$(broken "$dev")

	# Each read finds what has just been written, whole or in part. (What
	# is allocated ahead is in the map a moment later.)
	allocate "$dev" off
	for ((i = 0; i < 24; i++)); do
		at=$(((i % 2 ? 16384 : 1024) + i * 64))
		pattern write -d -n -q -b 1k -s "$i" -o "${at}k" "$dev" 3k
		pattern check -d -q -b 1k -s "$i" -o "${at}k" "$dev" 3k ||
			fail "$fs: a read at ${at}k after the write"
	done
	echo "ok: $fs: each read finds what was just written"
	is "$fs: leases broken" "$(($(broken "$dev") - breaks))" 0

	# Others write: the lease is broken
	check "$fs: another's write" \
		pattern write -q -b 4k -s 3 -o 12M "$MNT/image" 64k
	check "$fs: is read" pattern check -d -q -b 4k -s 3 -o 12M "$dev" 64k
	wait_until 20 mapped "$dev"
	wait_until 20 reads_hole $((11 << 20)) 4096
	check "$fs: and in the next epoch" \
		pattern check -d -q -b 4k -s 3 -o 12M "$dev" 64k
	detach "$dev"

	# The device begins within a block of the file
	dev=$(attach --offset $(((4 << 20) + 512)) --size-limit 4M "$MNT/image")
	allocate "$dev" off
	wait_until 30 mapped "$dev"
	wait_until 20 reads_hole 65024 4096
	check "$fs: at an offset" pattern write -d -n -q -b 512 -s 9 -o 66048 \
		"$dev" 512
	check "$fs: before it" reads_hole 61440 3584
	check "$fs: it" pattern check -d -q -b 512 -s 9 -o 66048 "$dev" 512
	detach "$dev"

	# A large image has larger granules: two blocks each
	mkimage 12G "$MNT/image" >/dev/null
	pattern write -q -b 4k -s 4 -o 1028k "$MNT/image" 4k
	dev=$(attach "$MNT/image")
	wait_until 30 maps "$dev" 4096
	wait_until 20 reads_hole 0 4096
	at=$(((11 << 30) + 4096))
	check "$fs: a write to half a granule" \
		pattern write -d -n -q -b 4k -s 5 -o "$at" "$dev" 4k
	check "$fs: is read" pattern check -d -q -b 4k -s 5 -o "$at" "$dev" 4k
	dd if="$dev" of="$WORK/read" bs=8k count=1 skip=1M \
		iflag=direct,skip_bytes status=none
	check "$fs: half a granule with data" cmp -n 8k -i 0:1M "$WORK/read" \
		"$MNT/image"
	detach "$dev"

	for ((i = 0; i < 3; i++)); do
		mkimage 8M "$MNT/image" >/dev/null
		dev=$(attach "$MNT/image")
		wait_until 30 mapped "$dev"
		devfsx -f "$MNT/image" -n "$(more 300)" -j 3 -r 200 \
			-s "$SEED" "$dev"
		[ "$(ios "$dev" holes)" -gt 0 ] || fail "$fs: no hole was read"
		detach "$dev"
		SEED=$((SEED + 1))
	done
	end_fs
done
