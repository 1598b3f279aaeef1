#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: A process that was told to wait for the lease on an image on xfs, and
#   hardly gets to run, may find the next lease in its place. It goes on all the
#   same.
# kernels: stable
# modes: side-by-side
# timeout: 240
. tests/lib/guard.sh
programs loopdev pattern uncounted

fs=xfs
begin_fs "$fs"
later dmsetup resume below
written "$MNT/image" 8M 1
written "$MNT/same" 64k 2
chmod 666 "$MNT/image"
open_uncounted "$MNT/image"
# Everybody else runs first
chrt --idle --pid 0 "$uncounted"
dev=$(attach "$MNT/image")
for round in {1..3}; do
	wait_mapped "$dev"
	udev_settle
	mapped=$(ios "$dev" mapped)
	dmsetup suspend --noflush --nolockfs below
	pattern write -d -n -q -b 64k -s "1$round" "$dev" 64k &
	writer=$!
	wait_until 20 more_ios "$dev" mapped "$mapped"
	echo "dedupe $MNT/same 0 0 64k" >&8
	wait_until 20 waits_in "$uncounted" __break_lease
	timeout 3 sh -c 'while :; do :; done' &
	hog=$!
	dmsetup resume below
	wait "$writer" || fail "round $round: the write failed"
	wait "$hog" || true
	is "round $round: compared" "$(answered)" differs
done
close_uncounted
detach "$dev"
end_fs
