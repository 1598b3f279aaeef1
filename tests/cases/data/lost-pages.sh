#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: When the disk fails while the driver writes back the image's dirty
#   pages for a reason of its own, the device's next flush fails. It doesn't
#   report lost data as durable.
# modes: side-by-side
. tests/lib/guard.sh
programs loopdev pattern

range="0 $((700 * 2048))"

# A journal would be aborted, and every fsync fail from then on
begin_fs ext4 -O ^has_journal
for mapping in 0 1; do
	set_mapping "$mapping"
	written "$MNT/image" 4M 1
	drop_caches
	dev=$(loop_attach buffered "$MNT/image")
	udev_settle
	check "$dev: a buffered write" pattern write -d -n -q -s 2 "$dev" 1M
	dm_becomes below "$range error"
	# LOOP_SET_DIRECT_IO may report the error or not
	loopdev direct "$dev" 1 || true
	[ "$mapping" = 0 ] || sleep 1
	dm_becomes below "$range linear $(the_disk 1) 0"
	refused "mapping $mapping: the flush" "*nput/output error*" \
		dd if=/dev/null of="$dev" conv=notrunc,fsync status=none
	check "mapping $mapping: written again" \
		pattern write -d -q -s 2 "$dev" 1M
	detach "$dev"
	drop_caches
	check "mapping $mapping: what it holds" \
		pattern check -q -s 2 "$MNT/image" 1M
	rm "$MNT/image"
done
unmount "$MNT"
