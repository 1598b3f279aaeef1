#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: XFS_IOC_SWAPEXT, which waits for no direct I/O, waits until a mapped write that hangs in the disk has ended: for the invalidate_lock, which the guard holds that long
# modes: side-by-side
# machines: stable-side-by-side
# timeout: 400
. tests/guest/lib.sh
. tests/programs/lib.sh
. tests/guest/guard.sh
programs loopdev pattern other

seed=10
hang() {
	dmsetup suspend --noflush --nolockfs below
}

# waits WHAT COMMAND... - that changes where the image's first 64k are
waits() {
	local what=$1 writer changer mapped
	shift
	wait_mapped "$dev" 7
	# What udev reads is mapped I/O too
	udevadm settle
	mapped=$(ios "$dev" mapped)
	hang
	seed=$((seed + 1))
	pattern write -d -n -q -b 64k -s "$seed" "$dev" 64k &
	writer=$!
	wait_until 20 more_ios "$dev" mapped "$mapped"
	check "$fs: $what: an open" timeout 60 "$WORK/bin/other" nonblock rw "$MNT/image"
	is "$fs: $what: the lease" "$(attr "$dev" loop/mapped_reason)" "someone else has the image open"
	"$@" >"$WORK/out" 2>&1 &
	changer=$!
	wait_until 30 waits_or_is_gone "$changer" filemap_invalidate_lock_two
	[ -e "/proc/$changer" ] || fail "$fs: $what: did not wait: $(cat "$WORK/out")"
	kill -0 "$writer" || fail "$fs: $what: the write did not hang"
	dmsetup resume below
	wait "$writer" || fail "$fs: $what: the write failed"
	wait "$changer" || fail "$fs: $what: $(cat "$WORK/out")"
	echo "ok: $fs: $what waited for the write"
}

zero() {
	check "$fs: the write came first" cmp -n 64K "$MNT/image" /dev/zero
	written "$MNT/image" 8M 1
}

# What has shared blocks once isn't mapped any more
another_image() {
	detach "$dev"
	rm -f "$MNT/image" "$MNT/clone"
	written "$MNT/image" 8M 1
	dev=$(attach "$MNT/image")
}

fs=xfs
begin_fs "$fs"
later dmsetup resume below
written "$MNT/image" 8M 1
written "$MNT/donor" 8M 2
sync
dev=$(attach "$MNT/image")
waits "swapping extents" xfs_io -c "swapext $MNT/donor" "$MNT/image"
