#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: Where a write to a hole is in flight, the file system lists no extent
#   yet. The driver doesn't take that for a hole: a read right after the write
#   finds the data.
# modes: side-by-side
# machines: stable-side-by-side
# timeout: 120
. tests/lib/guard.sh
programs loopdev pattern

begin_fs xfs
later below_takes 0 0 0
# Of a file that shares blocks it is a list that says where they are
written "$MNT/image" 4M 1
truncate -s 16M "$MNT/image"
cp --reflink=always "$MNT/image" "$MNT/clone"
sync
dev=$(attach "$MNT/image")
wait_until 30 maps "$dev" $((4 << 20))
udev_settle
below_takes 0 1000 0
for at in 8 12; do
	# When this one ends, the range around it is looked up, and when that
	# is done the second one is still in flight
	pattern write -d -n -q -b 4k -s 2 -o ${at}M "$dev" 4k &
	first=$!
	sleep 0.6
	check "a write at $at MiB" pattern write -d -n -q -b 4k -s 3 \
		-o $((at + 1))M "$dev" 4k
	check "it is there" pattern check -d -q -b 4k -s 3 -o $((at + 1))M \
		"$dev" 4k
	wait "$first" || fail "the write before it failed"
done
detach "$dev"
end_fs
