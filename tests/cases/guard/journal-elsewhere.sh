#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: On ext4 with its journal on another disk, a flush that goes through the
#   file system reaches the disk of the data, mapped writes included. 6.12's
#   ext4_sync_file() flushes the journal's disk only, while the change that it
#   waits for isn't being committed yet. Nothing is allocated ahead there.
# modes: side-by-side
# machines: stable-side-by-side lts-side-by-side
# disks: nvme:1G nvme:3G
. tests/lib/guard.sh
programs loopdev pattern

begin_tracing
carve "$(the_disk 2)" journal 0 64
check "a journal" mke2fs -q -F -b 4096 -O journal_dev /dev/mapper/journal
begin_fs ext4 -b 4096 -J device=/dev/mapper/journal
mkimage 8M "$MNT/image" >/dev/null
pattern write -q -s 1 "$MNT/image" 4M
# udev reads the end of the device after writes: it must not be a hole
pattern write -q -s 1 -o 7M "$MNT/image" 1M
dev=$(attach "$MNT/image")
wait_mapped "$dev" 5

disk=$(the_disk 1)
data=$(tr : , <"/sys/block/${disk#/dev/}/dev")
for ((hole = 4; hole < 7; hole++)); do
	mapped=$(ios "$dev" mapped)
	check "mapped writes" pattern write -d -n -q -s 2 "$dev" 1M
	more_ios "$dev" mapped "$mapped" || fail "none of them was mapped"
	check "a write into a hole" \
		pattern write -d -n -q -b 64k -s 3 -o ${hole}M "$dev" 64k
	file=$(ios "$dev" file)
	echo 0 >"$tracing/trace"
	echo 1 >"$tracing/events/block/block_rq_issue/enable"
	sync "$dev"
	echo 0 >"$tracing/events/block/block_rq_issue/enable"
	more_ios "$dev" file "$file" ||
		fail "the flush didn't go through the file system"
	grep -q "block_rq_issue: $data F" "$tracing/trace" ||
		fail "the data's disk got no flush:" \
			"$(grep block_rq_issue "$tracing/trace")"
	echo "ok: the data's disk was flushed"
	wait_until 20 mapped "$dev"
done
# A commit may come before the zeroes
allocate "$dev" 64k
check "a write into a hole" pattern write -d -n -q -b 4k -s 4 -o 5632k "$dev" \
	4k
is "zeroes behind it" "$(loop_stat "$dev" zeroed_bytes)" 0
detach "$dev"
unmount "$MNT"
