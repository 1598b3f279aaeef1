#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: A cgroup that is throttled to nothing reads an image on xfs that shares
#   blocks. Writes of others to the same block don't wait for the read, for it
#   isn't mapped. Nor is a read of the idle class.
# modes: side-by-side
# machines: stable-side-by-side
# timeout: 120
. tests/lib/guard.sh
. tests/lib/cgroups.sh
programs loopdev pattern

modprobe xfs
mount_cgroups
make_groups slow

begin_fs xfs
written "$MNT/image" 8M 1
cp --reflink=always "$MNT/image" "$MNT/clone"
sync
dev=$(attach "$MNT/image")
wait_until 30 maps "$dev" $((8 << 20))
udev_settle
later may_read slow max
may_read slow 10
in_group slow dd if="$dev" of="$WORK/read" bs=64k count=1 skip=64 \
	iflag=direct status=none &
reader=$!
wait_until 20 has_read slow
for second in {1..3}; do
	writes_go_on "second $second: a write of another"
	sleep 1
done
kill -0 "$reader" || fail "the read did not wait"
may_read slow max
wait "$reader" || fail "the throttled read failed"
check "what it read" cmp -n 65536 -i 0:4M "$WORK/read" "$MNT/clone"

# The disk may leave the idle class waiting, too
mapped=$(ios "$dev" mapped)
check "a read of the idle class" ionice -c 3 dd if="$dev" of=/dev/null bs=64k \
	count=1 iflag=direct status=none
is "of that mapped" "$(($(ios "$dev" mapped) - mapped))" 0
check "another read" dd if="$dev" of=/dev/null bs=64k count=1 iflag=direct \
	status=none
is "of that mapped" "$(($(ios "$dev" mapped) - mapped))" 1

# What the cgroup writes is mapped for others, if not at once
check "a write of the cgroup" \
	in_group slow pattern write -d -n -q -b 4k -s 2 -o 1M "$dev" 64k
wait_until 60 maps "$dev" $((8 << 20))
check "what it wrote" pattern check -d -q -b 4k -s 2 -o 1M "$dev" 64k
detach "$dev"
mkimage 8M "$MNT/sparse" >/dev/null
dev=$(attach "$MNT/sparse")
wait_until 20 mapped "$dev"
check "its write to a hole of an image that shares nothing" \
	in_group slow pattern write -d -n -q -b 4k -s 2 -o 1M "$dev" 64k
wait_until 30 maps "$dev" 65536
detach "$dev"
end_fs
