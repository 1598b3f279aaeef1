#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: While writes to holes are always in flight, so that no hole can be
#   known, the fill gets to the end of a fragmented image without asking about
#   the same holes again and again.
# modes: side-by-side
# machines: stable-side-by-side
# timeout: 400
. tests/lib/guard.sh
programs pattern

# Asked one by one
set_helper ""

# write_holes MEGABYTES - one 4k hole after another, again and again
write_holes() {
	while pattern write -d -n -q -b 4k -k 8k -s 2 -o $(($1 * 1024 + 4))k \
		"$dev" 4M; do
		:
	done
}

extents=16000
begin_tracing
modprobe xfs
count_calls xfs_file_llseek
begin_fs xfs
mkimage 170M "$MNT/image" >/dev/null
pattern write -q -b 4k -k 8k -s 1 "$MNT/image" $((extents * 8))k
# So slowly that there are holes left to write to
below_takes 0 250 0
before=$(calls)
dev=$(attach "$MNT/image")
allocate "$dev" off
wait_until 30 mapped "$dev"
writers=()
for at in 0 8 16; do
	write_holes $at &
	writers+=($!)
done
wait_until 100 maps "$dev" $((extents * 4096))
n=$(($(calls) - before))
[ "$n" -le $((extents * 8)) ] ||
	fail "asked $n times where data is, with $extents extents"
echo "ok: all data is mapped, asked $n times where data is"
kill "${writers[@]}"
pkill -x pattern || true
below_takes 0 0 0
wait "${writers[@]}" || true
check "what was there" pattern check -d -q -b 4k -k 8k -s 1 -o 32M "$dev" 32M
detach "$dev"
end_fs
