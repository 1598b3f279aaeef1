#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: Zeroes are written around a write where the file system's blocks are
#   larger than a page, too, and the write, or the device, ends inside of one. A
#   write of a part of a block has zeroes around it in any case.
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
is "zeroes around that, too" "$(loop_stat "$dev" zeroed_bytes)" $((108 * 1024))
allocate "$dev" auto
check "a part of a block, where auto allocates nothing ahead" \
	pattern write -d -n -q -b 512 -s 4 -o 6150k "$dev" 512
check "it is there" pattern check -d -q -b 512 -s 4 -o 6150k "$dev" 512
is "zeroes in the rest of the block" "$(loop_stat "$dev" zeroed_bytes)" \
	$((124 * 1024 - 512))
check "what is before it is zero" cmp -n 6k -i 6144k:0 "$dev" /dev/zero
wait_until 20 reads mapped $((6150 << 10)) 4096
# What is durable at once has no zeroes around it.
allocate "$dev" 64k
check "a part of a block by itself" \
	pattern write -d -a -n -q -b 512 -s 5 -o 7m "$dev" 512
check "a part of a block beside it" \
	pattern write -d -n -q -b 512 -s 6 -o 7169k "$dev" 512
check "it is there" pattern check -d -q -b 512 -s 6 -o 7169k "$dev" 512
check "and what was there is" \
	pattern check -d -q -b 512 -s 5 -o 7m "$dev" 512
detach "$dev"
rm "$MNT/image"

mkimage $((8 << 20)) "$MNT/image" >/dev/null
dev=$(attach "$MNT/image")
allocate "$dev" 64k
wait_until 30 mapped "$dev"
devfsx -f "$MNT/image" -n "$(more 300)" -j 2 -r 200 -s "$SEED" "$dev"
detach "$dev"
end_fs
