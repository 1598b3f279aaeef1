#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: A write starts in a hole, through the file system, and its rest is
#   mapped. Meanwhile another process changes the image's blocks. The write
#   ends: the rest doesn't wait for the start, which waits for the change, which
#   waits for the rest.
# modes: side-by-side
# machines: stable-side-by-side
. tests/lib/guard.sh
programs loopdev pattern

for fs in $(file_systems xfs); do
	begin_fs "$fs"
	later dmsetup resume below
	mkimage 8M "$MNT/image" >/dev/null
	pattern write -q -s 1 -o 64k "$MNT/image" 64k
	pattern write -q -s 1 -o 4M "$MNT/image" 4M
	dev=$(attach "$MNT/image")
	# A chunk would keep out who opens the image.
	allocate "$dev" off
	wait_mapped "$dev" 4
	udev_settle
	mapped=$(ios "$dev" mapped)
	dmsetup suspend --noflush --nolockfs below

	# The writer has the inode's lock, and waits for the disk; the others
	# wait for the writer. Any other waiter for the lock gets it after one
	# of them.
	before=()
	for at in 1M 1536k 2M 2560k 3M; do
		pattern write -d -n -q -b 512 -s 2 -o "$at" "$dev" 512 &
		before+=($!)
	done
	sleep 1
	# Half of it is in a hole.
	pattern write -d -n -q -b 128k -s 3 "$dev" 128k &
	both=$!
	wait_until 20 more_ios "$dev" mapped "$mapped"
	xfs_io -c "fpunch 5m 64k" "$MNT/image" &
	punch=$!
	(wait_until 20 waits_or_is_gone "$punch" "fallocate") ||
		fail "$fs: where it waits: $(<"/proc/$punch/stack")"
	all=("${before[@]}" "$both" "$punch")
	for pid in "${all[@]}"; do
		[ -e "/proc/$pid" ] || fail "$fs: not all of them wait"
	done
	dmsetup resume below
	wait_until 60 ended "${all[@]}"
	for pid in "${all[@]}"; do
		wait "$pid" || fail "$fs: one of them failed"
	done
	check "$fs: what was written" \
		pattern check -d -q -b 128k -s 3 "$dev" 128k
	for at in 1M 1536k 2M 2560k 3M; do
		check "$fs: before it" \
			pattern check -d -q -b 512 -s 2 -o "$at" "$dev" 512
	done
	check "$fs: the hole" cmp -n 64K -i 5M:0 "$dev" /dev/zero
	detach "$dev"
	end_fs
done
