#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: On xfs an image stays mapped while others have it open to read. They
#   read what was written to the device: through the page cache, past it, and
#   through a mapping of memory. A clone, or a deduplication, through such a
#   descriptor waits for the mapped write in flight; then others get none of
#   what the device is given.
# modes: side-by-side
# machines: stable-side-by-side
# timeout: 400
. tests/lib/guard.sh
programs loopdev pattern keeper

fs=xfs
image_readers() {
	loop_stat "$dev" readers
}

# read_back WHAT - what was written last is what a reader gets
read_back() {
	check "$1" keeper check -b 16k -m "$WORK/model" "$MNT/image" 4M
}

# still_mapped WHAT - no epoch was broken
still_mapped() {
	is "$1: epochs broken" "$(broken "$dev")" "$before"
	wait_mapped "$dev"
}

# shares_waits WHAT XFS_IO-COMMAND - sharing the image's blocks waits for the
# mapped write in flight. $shared: whether it succeeded then
shares_waits() {
	local mapped writer sharer
	shared=yes
	wait_mapped "$dev"
	before=$(broken "$dev")
	udev_settle
	# What xfs is just writing could hold up the other side, too.
	fsfreeze -f "$MNT"
	fsfreeze -u "$MNT"
	mapped=$(ios "$dev" mapped)
	# Only writes hang: the other side may have to read an inode.
	below_takes 0 1000000 1000000
	pattern write -d -n -q -b 64k -s 3 "$dev" 64k &
	writer=$!
	wait_until 20 more_ios "$dev" mapped "$mapped"
	is "$1: epochs broken by a reader" "$(broken "$dev")" "$before"
	setpriv --reuid 1000 --regid 1000 --clear-groups "${@:2}" &
	sharer=$!
	wait_until 20 waits_in "$sharer" \
		'inode_dio_wait\|__break_lease\|xfs_ilock'
	kill -0 "$writer" || fail "$1: the write did not hang"
	below_takes 0 0 0
	wait "$writer" || fail "$1: the write failed"
	wait "$sharer" || shared=no
	[ "$(broken "$dev")" -gt "$before" ] || fail "$1: no epoch was broken"
}

begin_mapped xfs 8M
later below_takes 0 0 0
later thaw "$MNT"
chown 1000 "$MNT/image"
chmod 777 "$MNT"
is "readers" "$(image_readers)" 0
before=$(broken "$dev")
exec 9<"$MNT/image"
is "with one" "$(image_readers)" 1
still_mapped "a reader"
goes_mapped "with a reader" "$dev"
begin_writes "$dev" 4M -b 16k -t 2
for how in "" iflag=direct; do
	dd if="$MNT/image" of=/dev/null bs=64k $how status=none
done
check "mapped memory" xfs_io -r -c "mmap -r 0 4m" -c "mread -f 0 4m" \
	"$MNT/image"
end_writes "what was written while others read"
read_back "and is what they read"
still_mapped "readers of all of it"

# Both read and write all the time
for round in 2 3; do
	check "round $round: through the device" \
		pattern write -d -q -b 64k -s $round "$dev" 4M
	check "round $round: through the page cache" \
		pattern check -q -b 64k -s $round "$MNT/image" 4M
done
still_mapped "writes between reads"

shares_waits "a clone" cp --reflink=always "$MNT/image" "$MNT/clone"
is "a clone was made" "$shared" yes
sum=$(sum_of "$MNT/clone")
check "a write after the clone" pattern write -d -q -b 64k -s 7 "$dev" 4M
drop_caches
is "the clone is as it was" "$(sum_of "$MNT/clone")" "$sum"
rm "$MNT/clone"
for _ in {1..5}; do
	check "nothing is shared" xfs_io -c "funshare 0 8m" "$MNT/image"
	! (wait_until 10 maps "$dev" $((8 << 20))) || break
done

written "$MNT/same" 64k 7
chown 1000 "$MNT/same"
sync
shares_waits "a deduplication" \
	xfs_io -r -c "dedupe $MNT/same 0 0 64k" "$MNT/image"
check "what was written" pattern check -q -b 64k -s 3 "$MNT/image" 64k
exec 9<&-

# Who may write ends the epoch as ever
breaks "a writer" xfs_io -c "pwrite -q 7m 4k" "$MNT/image"
detach "$dev"
end_fs

# There a reader of ext4 does: it breaks no layouts
fs=ext4
begin_mapped ext4 8M
breaks "a reader" dd if="$MNT/image" of=/dev/null bs=1M status=none
detach "$dev"
end_fs
