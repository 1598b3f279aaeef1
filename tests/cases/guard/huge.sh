#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: A huge sparse image is mapped as a whole: no chunk of it has more gaps
#   than the fill can look up.
# modes: side-by-side
# machines: stable-side-by-side
# timeout: 900
. tests/lib/guard.sh
programs loopdev pattern

# Chunks grow with the image: one of 1 PiB has chunks of 4 GiB. All pieces are
# in the first one. A batch of the fill ends after 32768 questions
# (MAX_LOOKS), and each gap takes one.
pieces=$((34 << 10))

on_disk xfs "$(the_disk 1)"
written "$MNT/image" $((pieces * 8 >> 10))M 1
sync
for ((i = 0; i < pieces; i++)); do
	echo "fpunch $((i * 8192 + 4096)) 4096"
done | xfs_io "$MNT/image" >"$WORK/punched"
truncate -s 1P "$MNT/image"
dev=$(attach "$MNT/image")
full() {
	maps "$dev" $((pieces * 4096))
}
(wait_until 300 full) ||
	fail "of $((pieces * 4096)) bytes are mapped:" \
		"$(loop_stat "$dev" mapped_bytes)"
is "bytes mapped" "$(loop_stat "$dev" mapped_bytes)" $((pieces * 4096))
detach "$dev"
unmount "$MNT"
