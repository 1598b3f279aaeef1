#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: While a mapped write hangs in the disk, the image can be opened. A
#   change of its blocks waits until the write has ended: in inode_dio_wait(),
#   or on xfs for the invalidate_lock.
# modes: side-by-side
# machines: lts-side-by-side
# timeout: 400
. tests/lib/guard.sh
programs loopdev pattern other

seed=10
hang() {
	dmsetup suspend --noflush --nolockfs below
}

# waits WHAT COMMAND... - the command changes where the image's first 64k are
waits() {
	local what=$1 writer changer mapped
	shift
	wait_mapped "$dev" 7
	# udev's reads are mapped I/O, too
	udev_settle
	mapped=$(ios "$dev" mapped)
	hang
	seed=$((seed + 1))
	pattern write -d -n -q -b 64k -s "$seed" "$dev" 64k &
	writer=$!
	wait_until 20 more_ios "$dev" mapped "$mapped"
	check "$fs: $what: an open" timeout 60 "$WORK/bin/other" \
		nonblock rw "$MNT/image"
	is "$fs: $what: the lease" "$(attr "$dev" loop/mapped_reason)" \
		"someone else has the image open"
	"$@" >"$WORK/out" 2>&1 &
	changer=$!
	wait_until 30 waits_or_is_gone "$changer" "inode_dio_wait\|xfs_ilock"
	[ -e "/proc/$changer" ] ||
		fail "$fs: $what: did not wait: $(cat "$WORK/out")"
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

# An image isn't mapped while it shares blocks
another_image() {
	detach "$dev"
	rm -f "$MNT/image" "$MNT/clone"
	written "$MNT/image" 8M 1
	dev=$(attach "$MNT/image")
}

for fs in $(file_systems ext4); do
	begin_fs "$fs"
	later dmsetup resume below
	written "$MNT/image" 8M 1
	written "$MNT/donor" 8M 2
	sync
	dev=$(attach "$MNT/image")
	waits "punching a hole" xfs_io -c "fpunch 0 64k" "$MNT/image"
	zero
	waits "zeroing a range" xfs_io -c "fzero 0 64k" "$MNT/image"
	zero
	waits "truncate by path" other truncate "$MNT/image" 7680k
	check "$fs: the write is in the file" \
		pattern check -q -b 64k -s "$seed" "$MNT/image" 64k
	waits "truncate by descriptor" xfs_io -c "truncate 7m" "$MNT/image"
	written "$MNT/image" 8M 1
	waits "collapsing a range" xfs_io -c "fcollapse 64k 64k" "$MNT/image"
	check "$fs: the write is in the file" \
		pattern check -q -b 64k -s "$seed" "$MNT/image" 64k
	waits "inserting a range" xfs_io -c "finsert 0 64k" "$MNT/image"
	check "$fs: the write moved on" cmp -n 64K -i 0 "$MNT/image" /dev/zero
	written "$MNT/image" 8M 1
	if [ "$fs" = xfs ]; then
		waits "a clone of it" xfs_io -f \
			-c "reflink $MNT/image 0 0 64k" "$MNT/clone"
		check "$fs: the clone has the write" \
			pattern check -q -b 64k -s "$seed" "$MNT/clone" 64k
		another_image
		waits "cloning into it" xfs_io -c "reflink $MNT/donor 0 0 64k" \
			"$MNT/image"
		check "$fs: the clone came last" \
			pattern check -q -b 64k -s 2 "$MNT/image" 64k
		another_image
		# It waits before it compares, and then they may differ
		pattern write -d -q -b 64k -s $((seed + 1)) "$MNT/same" 64k
		waits "deduplication" xfs_io -c "dedupe $MNT/same 0 0 64k" \
			"$MNT/image"
		check "$fs: the write is in the file" \
			pattern check -q -b 64k -s "$seed" "$MNT/image" 64k
	fi
	detach "$dev"
	end_fs
done
