#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: LOOP_SET_DIRECT_IO writes the page cache back. An error of that
#   write-back, which nobody asked for, fails the device's next flush, even if
#   the disk works again by then.
# modes: side-by-side
# machines: stable-side-by-side
. tests/lib/case.sh
programs loopdev pattern

size=$((400 * 2048))
disk=$(the_disk 1)
dmsetup create below --table "0 $size linear $disk 0"
later dm_remove below

for fs in $(file_systems ext4); do
	make_fs "$fs" /dev/mapper/below
	mkdir "$WORK/$fs"
	mount /dev/mapper/below "$WORK/$fs"
	image=$WORK/$fs/image
	pattern write -q "$image" 1M
	sync
	# The image's own blocks fail; in sectors of the disk
	read -r start count < <(filefrag -b512 -v "$image" |
		awk '$1 == "0:" { sub(/\.\./, "", $4); print $4 + 0, $6 + 0 }')
	is "$fs: sectors in one piece" "$count" 2048
	dev=$(loop_attach buffered "$image")
	udev_settle
	pattern write -q -n -d -s 1 "$dev" 1M
	dm_becomes below "0 $start linear $disk 0
$start $count error
$((start + count)) $((size - start - count)) linear $disk $((start + count))"
	echo "$fs: LOOP_SET_DIRECT_IO: $(errno direct "$dev" 1)"
	dm_becomes below "0 $size linear $disk 0"
	refused "$fs: the next flush" "*rror*" sync "$dev"
	check "$fs: the one after it" sync "$dev"
	loopdev detach "$dev"
	unmount "$WORK/$fs"
done
