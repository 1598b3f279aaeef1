#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: A reader of an image on xfs holds the inode's lock for ever, for a page
#   fault in its buffer is never answered, and a chmod waits behind it. The
#   driver looks for blocks that are mapped now, and doesn't wait there: the
#   device can be resized, and mapping turned off.
# modes: side-by-side
# machines: stable-side-by-side
. tests/lib/guard.sh
programs loopdev pattern other

begin_fs xfs
truncate -s 64M "$MNT/image"
written "$MNT/image" 16M 1
dev=$(attach "$MNT/image")
wait_mapped "$dev" 16
udev_settle
# What it reads of the device would wait for the lock, as with any driver
udevadm control --stop-exec-queue
later udevadm control --start-exec-queue

other stuck "$MNT/image" >"$WORK/said" 2>&1 &
reader=$!
later stop_writes $reader
wait_until 20 waits_in $reader handle_userfault
before=$(loop_stat "$dev" mapped_bytes)
# Into a hole: 200 ms later there is something to look for
check "a write" pattern write -d -q -s 2 -o 32M "$dev" 1M
chmod 600 "$MNT/image" &
changer=$!
later stop_writes $changer
wait_until 20 waits_in $changer chmod_common
grows() {
	[ "$(loop_stat "$dev" mapped_bytes)" -gt "$before" ]
}
wait_until 20 grows
echo "ok: what was written is mapped"
is "readers" "$(loop_stat "$dev" readers)" 1
check "its size is looked at" timeout 60 losetup --set-capacity "$dev"
# As a detach does, but nobody who has the device open is in the way
check "the guard stops" timeout 60 \
	sh -c "echo 0 >/sys/block/${dev#/dev/}/loop/mapping"
kill $reader
wait $reader || true
wait $changer || fail "the chmod failed"
echo "ok: the chmod ends"
udevadm control --start-exec-queue
detach "$dev"
