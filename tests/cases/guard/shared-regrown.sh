#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: An image that was shorter when its mapping began, and shares blocks,
#   reads what is written to blocks behind its end of then.
# modes: side-by-side
# machines: stable-side-by-side
# timeout: 120
. tests/lib/guard.sh
programs loopdev pattern

begin_fs xfs
written "$MNT/image" 12M 1
cp --reflink=always "$MNT/image" "$MNT/clone"
sync
dev=$(attach "$MNT/image")
wait_until 30 maps "$dev" $((12 << 20))
# Its owner makes it shorter, and long again when the mapping has begun anew
truncate -s $(((8 << 20) + 4096)) "$MNT/image"
echo 0 >"/sys/block/${dev#/dev/}/loop/mapping"
echo 1 >"/sys/block/${dev#/dev/}/loop/mapping"
cp --reflink=always "$MNT/clone" "$MNT/image"
sync
wait_until 30 maps "$dev" $((12 << 20))
for at in 1 9 10 11; do
	check "a write at ${at}M" pattern write -d -n -q -b 4k -s 2 \
		-o ${at}M "$dev" 4k
	check "what was written there" pattern check -d -q -b 4k -s 2 \
		-o ${at}M "$dev" 4k
	# While the fill knows of one, it asks about all
	sleep 2
	wait_until 30 maps "$dev" $((12 << 20))
done
drop_caches
check "the clone" pattern check -q -s 1 "$MNT/clone" 12M
detach "$dev"
end_fs
