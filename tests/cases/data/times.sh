#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: A write updates the image's mtime, as backups and rsync need it. On the
#   mapped path the next flush does so (the one after that if the file system is
#   frozen), and so does the end of an epoch, and the detach, even if the file
#   system was frozen when mapping was turned off. Through the file system the
#   next flush does so. Reads leave the mtime alone.
# modes: side-by-side
. tests/lib/guard.sh
programs loopdev pattern

# old_image - $image, as if it had not been written to for long
old_image() {
	touch -d 2001-01-01 "$image"
}

is_new() {
	[ "$(stat -c %Y "$image")" -gt "$(date -d 2002-01-01 +%s)" ]
}

# begin - attach it, and have it mapped: $dev
begin() {
	old_image
	dev=$(loop_attach direct "$image")
	wait_mapped "$dev" 8
	udev_settle
	mapped=$(ios "$dev" mapped)
}

write_mapped() {
	pattern write -q -n -d -s 1 "$dev" 1M
	[ "$(ios "$dev" mapped)" -gt "$mapped" ] ||
		fail "the write was not mapped"
}

for fs in ext4 xfs; do
	on_disk "$fs"
	later thaw "$MNT"
	image=$MNT/image
	pattern write -q "$image" 8M
	sync

	begin
	pattern check -q -d "$dev" 8M
	sync "$dev"
	loopdev detach "$dev"
	is_new && fail "$fs: read only, and it has a new mtime"
	echo "ok: $fs: read only"

	begin
	write_mapped
	sync "$dev"
	wait_until 20 is_new
	echo "ok: $fs: mapped: a flush"
	loopdev detach "$dev"

	# A frozen file system keeps the old times, and the flush after the
	# thaw sets the new ones
	begin
	write_mapped
	check "$fs: freeze" fsfreeze -f "$MNT"
	sync "$dev"
	sleep 0.5
	check "$fs: thaw" fsfreeze -u "$MNT"
	sync "$dev"
	wait_until 20 is_new
	echo "ok: $fs: mapped: a flush after a freeze"
	loopdev detach "$dev"

	begin
	write_mapped
	loopdev detach "$dev"
	is_new || fail "$fs: mapped, then detached: the old mtime"
	echo "ok: $fs: mapped: the detach"

	begin
	write_mapped
	later thaw "$MNT"
	fsfreeze -f "$MNT"
	echo 0 >"/sys/block/${dev#/dev/}/loop/mapping"
	fsfreeze -u "$MNT"
	loopdev detach "$dev"
	is_new || fail "$fs: mapped until it was frozen: the old mtime"
	echo "ok: $fs: mapped until it was frozen: the detach"

	begin
	write_mapped
	exec 3<>"$image"
	wait_until 20 is_new
	echo "ok: $fs: mapped: the end of an epoch"
	exec 3<&-
	loopdev detach "$dev"

	old_image
	dev=$(loop_attach buffered "$image")
	pattern write -q -n -d -s 2 "$dev" 1M
	sync "$dev"
	is_new || fail "$fs: buffered: the old mtime"
	echo "ok: $fs: buffered"
	loopdev detach "$dev"
	unmount "$MNT"
done
