#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: The fill counts extents. Those of ext4 in 6.12, whose fiemap takes no
#   lock, are counted with the inode's lock: ext4 would remember extents that a
#   truncate frees meanwhile. The command's status, which looks for shared
#   blocks, counts none on ext4.
# modes: side-by-side
# machines: stable-side-by-side lts-side-by-side
# coverage: no
. tests/lib/cli.sh
. tests/lib/guard.sh
programs loopdev pattern

begin_tracing

for fs in ext4 xfs; do
	begin_fs "$fs"
	function=ext4_fiemap
	[ "$fs" = ext4 ] || function=xfs_vn_fiemap
	count_calls "$function"
	written "$MNT/image" 8M 1
	before=$(calls)
	dev=$(attach "$MNT/image")
	wait_mapped "$dev"
	n=$(($(calls) - before))
	[ "$n" -gt 0 ] || fail "$fs: the fill has counted no extents"
	check "$fs: off" "$FLOOP" set "$dev" --mapping off
	before=$(calls)
	is "$fs: shared" "$(status "$dev" shared)" 0
	n=$(($(calls) - before))
	if [ "$fs" = ext4 ]; then
		is "$fs: counts of extents by status" "$n" 0
	elif [ "$n" -eq 0 ]; then
		fail "$fs: status has counted no extents"
	fi
	# The probe works.
	before=$(calls)
	filefrag "$MNT/image" >"$WORK/frag"
	[ "$(calls)" -gt "$before" ] || fail "$fs: filefrag isn't counted"
	detach "$dev"
	stop_counting
	end_fs
done

# What the lock's counter is at each call: 0 if nobody has it
begin_fs ext4
written "$MNT/image" 8M 1
count_calls 'ext4_fiemap lock=inode->i_rwsem.count.counter:x64'
dev=$(attach "$MNT/image")
wait_mapped "$dev"
grep -o "lock=.*" "$tracing/trace" >"$WORK/locks" ||
	fail "ext4: no call was traced"
if [ "$KERNEL" = lts ] && grep -qx "lock=0x0" "$WORK/locks"; then
	fail "ext4: a call without the lock"
fi
detach "$dev"
stop_counting
end_fs
