#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: I/O from memory that direct I/O can't take reads and writes the right
#   data: in pieces of any size, merged, and with FUA.
# modes: side-by-side
# machines: stable-side-by-side
# module: debug
. tests/lib/case.sh
programs loopdev pattern ackio
seed

begin_tracing
load_debug
set_mapping 0
for fs in $(file_systems ext4); do
	on_disk "$fs"
	image=$MNT/image
	pattern write -q -s 1 "$image" 8M
	dev=$(loop_attach direct "$image")
	udev_settle
	window 0 BOUNCE
	is "$fs: mapped" "$(attr "$dev" loop/mapped)" 0
	check "$fs: what is there" pattern check -q -d -s 1 "$dev" 8M
	# Each piece of 512 bytes is a line of the trace.
	for size in 512 4k 20k 1M; do
		amount=2M
		[ "$size" != 512 ] || amount=256k
		check "$fs: in pieces of $size" \
			pattern write -q -d -b "$size" -s 2 -o 1M "$dev" "$amount"
		check "$fs: in pieces of $size: read back" \
			pattern check -q -d -b "$size" -s 2 -o 1M "$dev" "$amount"
	done
	[ "$(fua_writes "$dev")" -gt 0 ] ||
		fail "$fs: a write with FUA: $(tail -n 5 "$tracing/trace")"
	echo "ok: $fs: a write with FUA"
	check "$fs: by the page cache" pattern write -q -s 3 -o 4M "$dev" 2M
	rm -f "$WORK/state"
	dd if=/dev/zero of="$dev" bs=1M count=8 oflag=direct \
		conv=fsync status=none
	out=$(ackio run "$dev" 200 "$SEED" "$WORK/state")
	echo "$fs: at random: $out"
	window 0
	check "$fs: all versions are right" ackio check "$dev" "$WORK/state"
	pattern write -q -s 4 -d "$dev" 8M
	window 0 BOUNCE
	check "$fs: a write in the middle" \
		pattern write -q -d -b 20k -s 5 -o 1M "$dev" 1M
	window 0
	check "$fs: before it" pattern check -q -d -s 4 "$dev" 1M
	check "$fs: after it" pattern check -q -d -s 4 -o 2M "$dev" 6M
	loopdev detach "$dev"
	unmount "$MNT"
done
