#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: The owner of a cloned image holds its inode's lock, for ever. The
#   driver doesn't wait for it to have xfs look whether the image shares blocks:
#   the device's writes would wait behind it. Where it has just begun to,
#   mapping can be turned off and on nevertheless, and the device detached.
#   I/O of the device doesn't begin then. When the lock is let go of, the image
#   is mapped as any other. While somebody reads the image, or writes to it, the
#   driver doesn't ask.
# modes: side-by-side
# machines: stable-side-by-side
# module: debug
# timeout: 300
. tests/lib/guard.sh
load_debug
programs loopdev pattern other

set_helper ""

# The driver waits for the inode's lock
looks() {
	grep -q floop_look_unshare /proc/[0-9]*/stack 2>/dev/null
}

mapping() {
	timeout 60 bash -c "echo $1 >/sys/block/${dev#/dev/}/loop/mapping"
}

# begins_to_look - the lock was seen free
begins_to_look() {
	window 60000 UNSHARE
	mapping 0
	mapping 1
	wait_until 60 in_window UNSHARE
}

# looks_in_vain - it waits: somebody has taken the lock since
looks_in_vain() {
	begins_to_look
	hold_inode "$MNT/image"
	window 0
	wait_until 20 looks
	queue_chmod "$MNT/image"
}

holder=
later let_go
begin_fs xfs
written "$MNT/image" 8M 1
cp --reflink=always "$MNT/image" "$MNT/twin"
hold_inode "$MNT/image"
dev=$(attach "$MNT/image")
wait_until 20 mapped "$dev"
for second in 1 2 3; do
	writes_go_on "second $second: a write"
	! looks || fail "the driver waits for the lock"
	sleep 1
done
queue_chmod "$MNT/image"
let_go

looks_in_vain
check "mapping off" mapping 0
check "and on" mapping 1
looks || fail "the driver has been answered"
let_go
wait_until 20 mapped "$dev"

exec 9<"$MNT/image"
rm "$MNT/twin"
sync
check "on" mapping 1
sleep 3
is "what is mapped while somebody reads" \
	"$(loop_stat "$dev" mapped_bytes)" 0
exec 9<&-
wait_unshared 8
goes_mapped "when they have gone" "$dev"

# Attached without a twin, it is not mapped beside one, and is looked at again
# within ten seconds.
detach "$dev"
dev=$(attach "$MNT/image")
wait_mapped "$dev"
cp --reflink=always "$MNT/image" "$MNT/twin"
wait_until 20 maps_nothing
sleep 1
exec 9<>"$MNT/image"
window 60000 UNSHARE
for second in {1..14}; do
	writes_go_on "second $second: a write beside a writer"
	sleep 1
done
! in_window UNSHARE || fail "xfs looks while somebody writes"
exec 9>&-

# xfs doesn't look while a page is dirty, as a part of a block leaves one. And
# the device's I/O could hold up xfs, and all others behind it.
check "a part of a block" pattern write -d -n -q -b 512 -s 9 -o 7M "$dev" 512
begins_to_look
# The read first: behind a write it would wait for that.
dd if="$dev" of=/dev/null bs=64k count=1 iflag=direct status=none &
reader=$!
sleep 1
pattern write -d -n -q -b 512 -s 7 -o 5M "$dev" 512 &
part=$!
pattern write -d -n -q -b 4k -s 8 -o 6M "$dev" 4k &
block=$!
sleep 1
for io in $part $block $reader; do
	kill -0 "$io" || fail "I/O goes on while xfs looks"
done
window 0
wait $part || fail "a write of a part of a block"
wait $block || fail "a write of a block"
wait $reader || fail "a read"
check "the part" pattern check -d -q -b 512 -s 7 -o 5M "$dev" 512
check "the one before" pattern check -d -q -b 512 -s 9 -o 7M "$dev" 512
looks_in_vain
check "a detach" timeout 60 losetup -d "$dev"
wait_until 60 test ! -e "/sys/block/${dev#/dev/}/loop/backing_file"
looks || fail "the driver has been answered"
let_go
dev=$(attach "$MNT/image")
rm "$MNT/twin"
sync
wait_unshared 8
goes_mapped "attached again" "$dev"
check "what it has" pattern check -d -q -s 1 "$dev" 4M
detach "$dev"
end_fs
