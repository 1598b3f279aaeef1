#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: While a mapped write is on its way to the disk, pages of the image are
#   read ahead through a descriptor that isn't counted. They are dropped: an
#   opener of the image then reads what was written. A process that opens the
#   image meanwhile and truncates it waits for that write.
# modes: side-by-side
# machines: stable-side-by-side
# cpus: 2
# module: debug
# timeout: 120
. tests/lib/guard.sh
load_debug
programs loopdev pattern uncounted

# write_in_window SEED - a mapped write that has found no page of the image, and
# hasn't reached the disk
write_in_window() {
	wait_mapped "$dev"
	mapped_before=$(ios "$dev" mapped)
	window 10000 SUBMIT
	pattern write -d -q -b 64k -s "$1" "$dev" 64k &
	writer=$!
	later stop_writes $writer
	wait_until 20 in_window SUBMIT
}

for fs in ext4 xfs; do
	begin_fs "$fs"
	image=$MNT/image
	written "$image" 8M 1
	open_uncounted "$image"
	dev=$(attach "$image")
	for round in 2 3; do
		write_in_window "$round"
		is "$fs: read ahead" "$(ask willneed 0 64k)" ok
		window 0
		wait "$writer" || fail "$fs: a write meanwhile"
		more_ios "$dev" mapped "$mapped_before" ||
			fail "$fs: it wasn't mapped"
		check "$fs: read by another" \
			pattern check -q -b 64k -s "$round" "$image" 64k
	done

	write_in_window 4
	truncate -s 0 "$image" &
	cutter=$!
	later stop_writes $cutter
	sleep 1
	in_window SUBMIT ||
		fail "$fs: the window was closed too early to show anything"
	[ -e "/proc/$cutter" ] || fail "$fs: cut with a write on its way"
	window 0
	wait "$writer" || fail "$fs: a write before a cut"
	wait "$cutter" || fail "$fs: a cut"
	detach "$dev"
	close_uncounted
	end_fs
done
