#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: a read in parts is about to end while LOOP_CHANGE_FD takes the image away that its parts came from: the image waits
# modes: side-by-side
# module: debug
# debug: only
# cpus: 2
# timeout: 240
. tests/guest/lib.sh
. tests/programs/lib.sh
. tests/guest/debug.sh
load_debug
. tests/guest/guard.sh
programs loopdev pattern

for fs in ext4 xfs; do
	begin_fs "$fs"
	later dmsetup resume below
	fragmented "$MNT/image" 4
	check "$fs: the image" pattern write -q -s 1 "$MNT/image" 4M
	written "$MNT/next" 4M 2
	sync
	dev=$(attach --read-only "$MNT/image")
	wait_mapped "$dev"
	for round in 1 2 3; do
		udevadm settle
		[ "$round" = 1 ] || loopctl change-fd "$dev" "$MNT/image"
		wait_mapped "$dev"
		mapped=$(ios "$dev" mapped)
		window 100 END
		dmsetup suspend --noflush --nolockfs below
		dd if="$dev" of=/dev/null bs=1M count=1 iflag=direct \
			status=none &
		reader=$!
		wait_until 20 more_ios "$dev" mapped "$mapped"
		loopctl change-fd "$dev" "$MNT/next" &
		changer=$!
		wait_until 20 waits_in "$changer" floop_guard_stop
		dmsetup resume below
		wait "$reader" || fail "$fs: the read failed"
		wait "$changer" || fail "$fs: LOOP_CHANGE_FD failed"
		window 0
		check "$fs: the other image" pattern check -d -q -s 2 "$dev" 4M
	done
	detach "$dev"
	end_fs
done
