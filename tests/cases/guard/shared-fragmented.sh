#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: An image on xfs that shares very many extents, more of them in 4 MiB
#   than the driver maps at a time, is mapped as a whole. Then the driver is at
#   rest: it doesn't flush the disk again and again.
# modes: side-by-side
# machines: stable-side-by-side
# timeout: 200
. tests/lib/guard.sh
programs loopdev pattern

on_disk xfs "$(the_disk 1)" -b size=1024
# Every other block: a chunk has 2048 extents, and holes between them
pattern write -q -b 1k -k 2k -s 1 "$MNT/image" 12M
truncate -s 12M "$MNT/image"
cp --reflink=always "$MNT/image" "$MNT/clone"
sync
dev=$(attach --read-only "$MNT/image")
wait_until 60 maps "$dev" $((6 << 20))
is "mapped for reads only" "$(loop_stat "$dev" mapped_shared_bytes)" \
	$((6 << 20))
check "what the device holds" \
	pattern check -q -d -b 1k -k 2k -s 1 "$dev" 12M
before=$(flushes)
sleep 3
is "flushes in three seconds" "$(($(flushes) - before))" 0
detach "$dev"
