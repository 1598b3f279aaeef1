#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: While writes to holes are always in flight, so that no hole can be
#   known, the fill gets to the end of an image with more holes than it looks up
#   at a time.
# modes: side-by-side
# machines: stable-side-by-side
# timeout: 400
. tests/lib/guard.sh
programs pattern

# write_holes MEGABYTES - one 4k hole after another, again and again
write_holes() {
	while pattern write -d -n -q -b 4k -k 8k -s 2 -o $(($1 * 1024 + 4))k \
		"$dev" 4M; do
		:
	done
}

extents=36000
begin_fs xfs
mkimage 300M "$MNT/image" >/dev/null
pattern write -q -b 4k -k 8k -s 1 "$MNT/image" $((extents * 8))k
below_takes 0 100 0
dev=$(attach "$MNT/image")
wait_until 30 mapped "$dev"
writers=()
for at in 0 8 16; do
	write_holes $at &
	writers+=($!)
done
wait_until 100 maps "$dev" $((extents * 4096))
echo "ok: all data is mapped"
kill "${writers[@]}"
pkill -x pattern || true
below_takes 0 0 0
wait "${writers[@]}" || true
check "what was there" pattern check -d -q -b 4k -k 8k -s 1 -o 32M "$dev" 64M
detach "$dev"
end_fs
