#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: Where there is no memory to merge writes, each is done on its own: none
#   is lost, and none waits for ever.
# modes: side-by-side
# machines: stable-side-by-side
# timeout: 120
# module: debug
. tests/lib/case.sh
programs loopdev pattern

begin_tracing
load_debug
# Mapped I/O is merged by the disk's driver, not by ours.
set_mapping 0
echo 1 >"$tracing/events/floop/floop_io_join/enable"
on_disk ext4
for how in direct buffered; do
	truncate -s 4M "$MNT/image"
	dev=$(loop_attach "$how" "$MNT/image")
	udev_settle
	# Its page cache writes page after page, which are merged.
	echo >"$tracing/trace"
	pattern write -q -s 1 "$dev" 4M
	joins=$(grep -c floop_io_join: "$tracing/trace" || true)
	[ "$joins" -gt 0 ] || fail "$how: nothing was merged"
	echo "ok: $how: $joins merged writes"
	window 0 MERGE
	echo >"$tracing/trace"
	pattern write -q -s 2 "$dev" 4M
	is "$how: merged writes without memory" \
		"$(grep -c floop_io_join: "$tracing/trace" || true)" 0
	window 0
	loopdev detach "$dev"
	drop_caches
	check "$how: the image" pattern check -q -s 2 "$MNT/image" 4M
	rm "$MNT/image"
done
