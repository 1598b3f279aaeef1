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

# The attach reads the image.
reads() {
	waits_in "$attacher" xfs_file_dio_read
}

begin_fs xfs
later let_go
written "$MNT/image" 4M 1
written "$MNT/another" 4M 2
cp --reflink=always "$MNT/image" "$MNT/clone"
sync
hold_inode "$MNT/image"
queue_chmod "$MNT/image"
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
