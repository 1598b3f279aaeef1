#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: A cgroup that is throttled to nothing reads a cloned image through its
#   device. The driver doesn't have xfs look whether the image still shares
#   blocks: that would wait for the read with the inode's lock held, and the
#   writes of all others behind it. It does when the read has ended.
# modes: side-by-side
# machines: stable-side-by-side
# timeout: 300
. tests/lib/guard.sh
. tests/lib/cgroups.sh
programs loopdev pattern

set_helper ""

begin_tracing
modprobe xfs
mount_cgroups
make_groups slow

begin_fs xfs
written "$MNT/image" 8M 1
cp --reflink=always "$MNT/image" "$MNT/twin"
dev=$(attach "$MNT/image")
wait_until 20 reads_shared
udev_settle
later may_read slow max
may_read slow 10
in_group slow dd if="$dev" of="$WORK/read" bs=64k count=1 skip=16 \
	iflag=direct status=none &
reader=$!
wait_until 20 has_read slow
rm "$MNT/twin"
sync
count_calls xfs_file_fallocate
for mapping in 0 1; do
	echo "$mapping" >"/sys/block/${dev#/dev/}/loop/mapping"
done
for second in {1..4}; do
	writes_go_on "second $second: a write of another"
	sleep 1
done
is "how often xfs was to look" "$(calls)" 0
kill -0 "$reader" || fail "the read did not wait"
may_read slow max
wait "$reader" || fail "the throttled read failed"
check "what it read" cmp -n 65536 -i 0:1M "$WORK/read" "$MNT/image"
wait_unshared 8
[ "$(calls)" -gt 0 ] || fail "xfs never looked"
goes_mapped "without its twin" "$dev"
detach "$dev"
end_fs
