#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: A write to an image on xfs that shares blocks may be about to go
#   through the page cache when the image shares none any more. The driver
#   doesn't have xfs look before it has ended, and if somebody else has, nothing
#   is mapped before. While xfs looks no write of a part of a block gets there.
# modes: side-by-side
# machines: stable-side-by-side
# module: debug
# timeout: 300
. tests/lib/guard.sh
load_debug
programs loopdev pattern

set_helper ""

# begin_held OFFSET - a write to the device, which waits before it gets to xfs
begin_held() {
	window 120000 WRITE UNSHARE
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
nothing_mapped "a write waits, and the image shares nothing"
! in_window UNSHARE || fail "xfs looks while a write waits"
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

parked() {
	grep -q floop_calls_begin /proc/[0-9]*/stack 2>/dev/null
}

# Of 512 bytes, through the file system
cp --reflink=always "$MNT/image" "$MNT/twin"
wait_until 20 maps_nothing
window 120000 UNSHARE
rm "$MNT/twin"
sync
for mapping in 0 1; do
	echo "$mapping" >"/sys/block/${dev#/dev/}/loop/mapping"
done
wait_until 30 in_window UNSHARE
pattern write -d -q -b 512 -s 3 -o $((3 << 20 | 512)) "$dev" 512 &
writer=$!
wait_until 20 parked
sleep 1
kill -0 "$writer" || fail "a write of 512 bytes was not parked"
window 0
wait "$writer" || fail "the write of 512 bytes failed"
wait_unshared 8
goes_mapped "after a write of 512 bytes" "$dev"
check "what it has written" \
	pattern check -d -q -b 512 -s 3 -o $((3 << 20 | 512)) "$dev" 512
check "before it" pattern check -d -q -b 512 -s 1 -o 3M "$dev" 512
detach "$dev"
end_fs
