#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: An emergency remount makes the file system below read-only, and ext4's
#   fsync then does nothing. A flush of the device, an O_DSYNC write and a write
#   with FUA alone (btrfs's super block) still reach the disk as a flush.
# modes: side-by-side
# machines: stable-side-by-side lts-side-by-side
# timeout: 400
. tests/lib/guard.sh
programs loopdev pattern

read_only() {
	[ "$(findmnt -n -o FS-OPTIONS "$MNT" | cut -d, -f1)" = ro ]
}

# flushed WHAT COMMAND... - the disk, by that
flushed() {
	local what=$1 before
	shift
	before=$(flushes)
	"$@" >"$WORK/out" 2>&1 || fail "$what: $(cat "$WORK/out")"
	[ "$(flushes)" -gt "$before" ] || fail "$what: the disk got no flush"
	echo "ok: $what: the disk got $(($(flushes) - before)) flushes"
}

# commits WHAT - a btrfs on the device: a flush, and then its super block with
# FUA, so that the disk gets two
commits() {
	local before after
	date >"$WORK/upper/file"
	before=$(flushes)
	sync -f "$WORK/upper"
	after=$(flushes)
	[ $((after - before)) -ge 2 ] ||
		fail "$1: the disk got $((after - before)) flushes," \
			"the write with FUA none"
	echo "ok: $1: the disk got $((after - before)) flushes"
}

# The machine's own root becomes read-only as well
later mount -o remount,rw /
for fs in ext4 xfs; do
	begin_mapped $fs 8M
	udev_settle
	flushed "$fs: an fsync" xfs_io -c fsync "$dev"
	flushed "$fs: an O_DSYNC write" \
		pattern write -d -a -n -q -b 64k -s 2 "$dev" 64k
	echo u >/proc/sysrq-trigger
	wait_until 20 read_only

	# xfs may refuse the write. ext4 overwrites written blocks
	if pattern write -d -n -q -b 64k -s 3 "$dev" 64k; then
		flushed "$fs: read-only: an fsync after a write" \
			xfs_io -c fsync "$dev"
		flushed "$fs: read-only: an O_DSYNC write" \
			pattern write -d -a -n -q -b 64k -s 4 "$dev" 64k
	else
		[ $fs = xfs ] || fail "$fs: refuses to overwrite written blocks"
	fi
	flushed "$fs: read-only: an fsync" xfs_io -c fsync "$dev"

	mount -o remount,rw "$MNT"
	check "$fs: writable: a write" pattern write -d -q -s 5 "$dev" 8M
	wait_mapped "$dev"
	check "$fs: it is there" pattern check -d -q -s 5 "$dev" 8M
	detach "$dev"
	end_fs
done

begin_mapped ext4 64M
# No discards: a hole can only be filled while the file system below is writable
mkfs.btrfs -q -K --mixed -m single -d single "$dev"
mount_at "$dev" "$WORK/upper" -o nodiscard
udev_settle
echo u >/proc/sysrq-trigger
wait_until 20 read_only
mount -o remount,rw "$WORK/upper"
commits "read-only: a write with FUA"
unmount "$WORK/upper"
mount -o remount,rw "$MNT"
check "what it holds" btrfs check "$dev"
detach "$dev"
end_fs
