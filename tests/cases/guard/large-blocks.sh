#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: Zeroes are written around a write where the file system's blocks are
#   larger than a page, too, and the write, or the device, ends inside of one.
# modes: side-by-side
# machines: stable-side-by-side lts-side-by-side
. tests/lib/guard.sh
programs loopdev devfsx pattern
seed

begin_fs xfs -b size=16384
mkimage $(((8 << 20) + 20480)) "$MNT/image" >/dev/null
dev=$(attach "$MNT/image")
allocate "$dev" 64k
wait_until 30 mapped "$dev"
wait_until 20 reads_hole 0 4096
check "a write up to the device's end" \
	pattern write -d -n -q -b 4k -s 1 -o 8208k "$dev" 4k
check "it is there" pattern check -d -q -b 4k -s 1 -o 8208k "$dev" 4k
check "a write of a block, inside of a unit" \
	pattern write -d -n -q -b 16k -s 2 -o 4128k "$dev" 16k
is "zeroes around it" "$(loop_stat "$dev" zeroed_bytes)" $((48 * 1024))
check "a part of a block" \
	pattern write -d -n -q -b 4k -s 3 -o 2080k "$dev" 4k
check "it is there" pattern check -d -q -b 4k -s 3 -o 2080k "$dev" 4k
detach "$dev"
rm "$MNT/image"

mkimage $((8 << 20)) "$MNT/image" >/dev/null
dev=$(attach "$MNT/image")
allocate "$dev" 64k
wait_until 30 mapped "$dev"
devfsx -f "$MNT/image" -n "$(more 300)" -j 2 -r 200 -s "$SEED" "$dev"
detach "$dev"
end_fs
