#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: The owner of a cloned image holds its inode's lock while the driver has
#   xfs look whether the image still shares blocks. Mapping can be turned off
#   and on, and the device detached. When the lock is let go of, the image is
#   mapped as any other. While somebody reads the image the driver doesn't ask:
#   writes to the device would wait behind it.
# modes: side-by-side
# machines: stable-side-by-side
# timeout: 300
. tests/lib/guard.sh
programs loopdev pattern other

# The driver waits for the inode's lock
looks() {
	grep -q floop_look_unshare /proc/[0-9]*/stack 2>/dev/null
}

# looks_in_vain - it does, and so does a chmod
looks_in_vain() {
	hold_inode "$MNT/image"
	wait_until 60 looks
	queue_chmod "$MNT/image"
}

mapping() {
	timeout 60 bash -c "echo $1 >/sys/block/${dev#/dev/}/loop/mapping"
}

holder=
later let_go
begin_fs xfs
written "$MNT/image" 8M 1
cp --reflink=always "$MNT/image" "$MNT/twin"
dev=$(attach "$MNT/image")
wait_until 20 mapped "$dev"
looks_in_vain
check "mapping off" mapping 0
check "and on" mapping 1
looks || fail "the driver has been answered"
let_go
wait_until 20 mapped "$dev"

# A reader
exec 9<"$MNT/image"
rm "$MNT/twin"
sync
check "on" mapping 1
sleep 3
is "what is mapped while somebody reads" \
	"$(loop_stat "$dev" mapped_bytes)" 0
exec 9<&-
(wait_until 100 maps "$dev" $((8 << 20))) || true
wait_mapped "$dev"
goes_mapped "when they have gone" "$dev"

cp --reflink=always "$MNT/image" "$MNT/twin"
looks_in_vain
check "a detach" timeout 60 losetup -d "$dev"
looks || fail "the driver has been answered"
let_go
wait_until 20 test ! -e "/sys/block/${dev#/dev/}/loop/backing_file"
dev=$(attach "$MNT/image")
rm "$MNT/twin"
sync
(wait_until 100 maps "$dev" $((8 << 20))) || true
wait_mapped "$dev"
check "what it has" pattern check -d -q -s 1 "$dev" 8M
detach "$dev"
end_fs
