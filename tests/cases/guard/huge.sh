#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: A sparse image of very many gaps is mapped as a whole. So is a huge
#   one, no chunk of which has more gaps than the fill can look up.
# modes: side-by-side
# machines: stable-side-by-side
# module: debug
. tests/lib/guard.sh
load_debug
programs loopdev pattern

# all_mapped PIECES
all_mapped() {
	(wait_until 60 maps "$dev" $(($1 * 4096))) ||
		fail "of $(($1 * 4096)) bytes are mapped:" \
			"$(loop_stat "$dev" mapped_bytes)"
	is "bytes mapped" "$(loop_stat "$dev" mapped_bytes)" $(($1 * 4096))
}

# Chunks have 4 MiB, and grow with the image: of one of 1 PiB they have 4 GiB,
# and all pieces are in the first one. A batch of the fill ends after 32768
# questions (MAX_LOOKS), here after 1000, and each gap takes one.
window 0 LOOKS
pieces=2048

on_disk xfs "$(the_disk 1)"
# Every other block of the file is there.
pattern write -q -b 4k -k 8k "$MNT/image" $((pieces * 8))k
truncate -s $((pieces * 8))k "$MNT/image"

dev=$(attach "$MNT/image")
all_mapped $pieces
# One more piece in each chunk: all chunks are looked up again, in two batches.
more=$((pieces * 8 >> 12))
check "a write to each chunk" pattern write -d -n -q -b 4k -k 4M -s 2 \
	-o 4k "$dev" $((more * 4))M
all_mapped $((pieces + more))
detach "$dev"

truncate -s 1P "$MNT/image"
dev=$(attach "$MNT/image")
all_mapped $((pieces + more))
detach "$dev"
unmount "$MNT"
