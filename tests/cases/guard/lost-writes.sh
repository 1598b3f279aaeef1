#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: Mapped I/O that the disk fails gives EIO on the device. If the disk
#   loses another's write to the image before an epoch can begin, the device's
#   next flush fails, and so it does if another's write collides with a mapped
#   one in the page cache. The flush after that succeeds, the image is mapped
#   again, and no other data is lost.
# modes: side-by-side
# machines: stable-side-by-side
. tests/lib/guard.sh
programs loopdev pattern

disk=$(the_disk 1)

# gives_eio COMMAND...
gives_eio() {
	local status=0 out
	out=$("$@") || status=$?
	is "$fs: $1 $2: exit status" "$status" 3
	matches "$fs: $1 $2" "$out" "EIO *"
}

begun_since() {
	[ "$(begun "$dev")" -gt "$begun" ]
}

# flush_fails_once WHY
flush_fails_once() {
	refused "$fs: the next flush, $1" "*rror*" sync "$dev"
	check "$fs: the one after it" sync "$dev"
}

for fs in $(file_systems xfs); do
	# Where files can share blocks, others' writes wait for mapped ones.
	# Lazy initialization would keep the journal while the disk is slow.
	options=(-m reflink=0)
	[ "$fs" = xfs ] || options=(-E "nodiscard,lazy_itable_init=0")
	begin_fs "$fs" "${options[@]}"
	# So would a commit.
	[ "$fs" = xfs ] || mount -o remount,commit=300 "$MNT"
	later dmsetup resume below
	written "$MNT/image" 1M 1
	truncate -s 2M "$MNT/image"
	read -r start count < <(filefrag -b512 -v "$MNT/image" |
		awk '$1 == "0:" { sub(/\.\./, "", $4); print $4 + 0, $6 + 0 }')
	is "$fs: sectors in one piece" "$count" 2048
	size=$(sectors /dev/mapper/below)
	end=$((start + count))
	well="0 $size linear $disk 0"
	ill="0 $start linear $disk 0
$start $count error
$end $((size - end)) linear $disk $end"
	dev=$(attach "$MNT/image")
	wait_mapped "$dev" 1
	udev_settle

	mapped=$(ios "$dev" mapped)
	dm_becomes below "$ill"
	gives_eio pattern check -d -q -b 64k -s 1 "$dev" 64k
	gives_eio pattern write -d -n -q -b 64k -s 2 "$dev" 64k
	more_ios "$dev" mapped $((mapped + 1)) || fail "$fs: not mapped"
	dm_becomes below "$well"
	check "$fs: well again" pattern check -d -q -s 1 "$dev" 1M

	check "$fs: a write to a hole" \
		pattern write -d -n -q -b 64k -s 3 -o 1M "$dev" 64k
	wait_mapped "$dev" 1
	dm_becomes below "$ill"
	begun=$(begun "$dev")
	check "$fs: another's write" xfs_io -c "pwrite -q 0 64k" "$MNT/image"
	wait_until 20 begun_since
	dm_becomes below "$well"
	flush_fails_once "with a write lost"
	check "$fs: what was there" pattern check -d -q -s 1 "$dev" 1M

	# A mapped write and a mapped flush are in flight when another's write
	# dirties the page cache. On ext4 it waits for them, unless it is made
	# through a mapping of the file.
	wait_mapped "$dev" 1
	udev_settle
	refused "$fs: sync of the file system" "*rror*" sync -f "$MNT"
	mapped=$(ios "$dev" mapped)
	below_takes 0 1000000 1000000
	pattern write -d -n -q -b 64k -s 2 "$dev" 64k &
	writer=$!
	later stop_writes $writer
	sync "$dev" &
	flush=$!
	later stop_writes $flush
	wait_until 20 more_ios "$dev" mapped $((mapped + 1))
	how=(-c "pwrite -q -S 9 0 64k")
	[ "$fs" = xfs ] || how=(-c "mmap -rw 0 64k" -c "mwrite -S 9 0 64k")
	check "$fs: another's write meanwhile" xfs_io "${how[@]}" "$MNT/image"
	below_takes 0 0 0
	wait $writer || fail "$fs: the mapped write"
	wait $flush || fail "$fs: the mapped flush"
	flush_fails_once "after a collision"
	check "$fs: next to it" \
		pattern check -d -q -b 64k -s 1 -o 64k "$dev" 960k
	check "$fs: behind it" \
		pattern check -d -q -b 64k -s 3 -o 1M "$dev" 64k
	wait_mapped "$dev" 1
	detach "$dev"
	end_fs
done
