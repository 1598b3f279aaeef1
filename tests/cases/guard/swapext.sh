#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: XFS_IOC_SWAPEXT doesn't wait for direct I/O. It waits for a mapped
#   write that hangs in the disk, because the guard holds the invalidate_lock
#   that long. The write lands in the blocks that were the image's, and nowhere
#   else.
# modes: side-by-side
# machines: stable-side-by-side lts-side-by-side
# timeout: 400
. tests/lib/guard.sh
programs loopdev pattern other

begin_mapped xfs 8M
later dmsetup resume below
written "$MNT/donor" 8M 2
sync
wait_mapped "$dev"
# What udev reads is mapped I/O too
udev_settle
mapped=$(ios "$dev" mapped)
dmsetup suspend --noflush --nolockfs below
pattern write -d -n -q -b 64k -s 11 "$dev" 64k &
writer=$!
wait_until 20 more_ios "$dev" mapped "$mapped"
xfs_io -c "swapext $MNT/donor" "$MNT/image" >"$WORK/out" 2>&1 &
changer=$!
wait_until 30 waits_or_is_gone "$changer" xfs_swap_extents
sleep 1
waits_in "$changer" xfs_swap_extents ||
	fail "the exchange did not wait: $(cat "$WORK/out")"
kill -0 "$writer" || fail "the write did not hang"
dmsetup resume below
wait "$writer" || fail "the write failed"
# The driver may update the image's times meanwhile. Then the exchange is
# refused
if wait "$changer" && [ ! -s "$WORK/out" ]; then
	written=$MNT/donor other=$MNT/image
else
	matches "refused" "$(cat "$WORK/out")" "*busy*"
	written=$MNT/image other=$MNT/donor
fi
drop_caches
check "the write" pattern check -q -b 64k -s 11 "$written" 64k
check "the rest of it" pattern check -q -s 1 -o 64k "$written" 8128k
check "the other file" pattern check -q -s 2 "$other" 8M
detach "$dev"
end_fs
