#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: An attach that waits for its image's owner is in nobody's way: who asks
#   for a free device gets another one. The owner holds the inode's lock, by
#   FS_IOC_FIEMAP to memory that is never provided, and a chmod waits behind
#   it. The driver tries a direct read of a file that has shared blocks.
# modes: side-by-side
# machines: stable-side-by-side
. tests/lib/guard.sh
programs loopdev pattern other

# let_go - of the lock; whoever waits for it goes on
let_go() {
	[ "$holder" ] || return 0
	kill "$holder"
	wait "$holder" || true
	wait "$changer" || fail "the chmod failed"
	holder=
}

# The attach reads the image.
reads() {
	waits_in "$attacher" xfs_file_dio_read
}

holder=
begin_fs xfs
later let_go
written "$MNT/image" 4M 1
written "$MNT/another" 4M 2
cp --reflink=always "$MNT/image" "$MNT/clone"
sync
other stuck-fiemap "$MNT/image" >"$WORK/said" 2>&1 &
holder=$!
wait_until 20 waits_in $holder handle_userfault
chmod 600 "$MNT/image" &
changer=$!
wait_until 20 waits_in $changer chmod_common
loopdev attach "$MNT/image" >"$WORK/first" &
attacher=$!
wait_until 20 reads
dev=$(attach "$MNT/another")
reads || fail "the first attach doesn't wait any more"
echo "ok: $dev is attached while another attach waits"
let_go
wait $attacher || fail "the attach fails when the lock is free"
check "both are" test "$(<"$WORK/first")" != "$dev"
detach "$dev"
detach "$(<"$WORK/first")"
end_fs
