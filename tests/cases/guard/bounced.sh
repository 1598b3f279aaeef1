#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: A write to an image on xfs that shares blocks may be about to go
#   through the page cache when the image shares none any more. Nothing is
#   mapped until it has ended, whether the driver had xfs look or somebody else
#   did.
# modes: side-by-side
# machines: stable-side-by-side
# module: debug
# timeout: 300
. tests/lib/guard.sh
load_debug
programs loopdev pattern

# begin_held OFFSET - a write to the device, which waits before it gets to xfs
begin_held() {
	window 120000 WRITE
	pattern write -d -q -b 4k -s 2 -o "$1" "$dev" 4k &
	held=$!
	wait_until 20 in_window WRITE
}

nothing_mapped() {
	sleep 3
	is "mapped while $1" "$(loop_stat "$dev" mapped_bytes)" 0
	kill -0 "$held" || fail "$1: the write didn't wait"
}

end_held() {
	window 0
	wait "$held" || fail "the write that waited failed"
	wait_unshared 8
	goes_mapped "$1" "$dev"
	check "$1: what was written" pattern check -d -q -b 4k -s 2 -o "$2" \
		"$dev" 4k
}

begin_fs xfs
written "$MNT/image" 8M 1
cp --reflink=always "$MNT/image" "$MNT/twin"
dev=$(attach "$MNT/image")
wait_until 20 reads_shared
begin_held 1M
rm "$MNT/twin"
sync
for mapping in 0 1; do
	echo "$mapping" >"/sys/block/${dev#/dev/}/loop/mapping"
done
wait_until 20 mapped "$dev"
nothing_mapped "a write waits, and xfs has looked"
end_held "when it has ended" 1M

cp --reflink=always "$MNT/image" "$MNT/twin"
wait_until 20 reads_shared
begin_held 2M
rm "$MNT/twin"
sync
check "somebody else has xfs look" xfs_io -c "funshare 0 8m" "$MNT/image"
wait_until 20 mapped "$dev"
nothing_mapped "a write waits that began before the epoch"
end_held "when that has ended" 2M
check "the rest" pattern check -d -q -s 1 "$dev" 1M
detach "$dev"
end_fs
