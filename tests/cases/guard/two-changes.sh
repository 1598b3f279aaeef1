#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: While a mapped write hangs in the disk, a discard waits for it, and so
#   does the end of mapping that comes while the discard waits. A freeze of the
#   file system waits, too.
# modes: side-by-side
# machines: stable-side-by-side
. tests/lib/guard.sh
programs loopdev pattern

# begin_hanging SEED - a mapped write of the first 64k that doesn't reach the
# disk: $writer
begin_hanging() {
	local mapped
	wait_mapped "$dev" 7
	# What udev reads is mapped I/O too.
	udev_settle
	# Nor does anything else wait for the disk.
	sync -f "$MNT"
	mapped=$(ios "$dev" mapped)
	dmsetup suspend --noflush --nolockfs below
	pattern write -d -n -q -b 64k -s "$1" "$dev" 64k &
	writer=$!
	wait_until 20 more_ios "$dev" mapped "$mapped"
}

# end_hanging
end_hanging() {
	dmsetup resume below
	wait "$writer" || fail "$fs: the write failed"
}

# still WHAT PID - does it still wait?
still() {
	[ -e "/proc/$2" ] || fail "$fs: $1 did not wait for the write"
	echo "ok: $fs: $1 waits"
}

unmap() {
	echo 0 >"/sys/block/${dev#/dev/}/loop/mapping"
}

discards() {
	waits_in "$1" \
		"blk[a-z_]*_discard\|submit_bio_wait\|blkdev_common_ioctl"
}

for fs in $(file_systems xfs); do
	begin_mapped "$fs" 8M
	later thaw "$MNT"
	later dmsetup resume below

	begin_hanging 2
	fsfreeze -f "$MNT" &
	freezer=$!
	# It waits for the writers, before it writes anything back itself
	wait_until 20 waits_or_is_gone "$freezer" \
		'freeze_super\|percpu_down_write\|sb_wait_write'
	sleep 1
	still "a freeze" "$freezer"
	matches "$fs: where it waits" "$(head -n 1 "/proc/$freezer/stack")" \
		"*@(freeze_super|percpu_down_write|sb_wait_write)*"
	end_hanging
	wait "$freezer" || fail "$fs: the freeze failed"
	check "$fs: thaw" fsfreeze -u "$MNT"

	begin_hanging 3
	blkdiscard -f -o 4M -l 64k "$dev" &
	discard=$!
	wait_until 20 discards "$discard"
	sleep 1
	still "a discard" "$discard"
	unmap &
	unmap=$!
	sleep 1
	still "the end of mapping" "$unmap"
	still "the discard" "$discard"
	end_hanging
	wait "$discard" || fail "$fs: the discard failed"
	wait "$unmap" || fail "$fs: the end of mapping failed"
	check "$fs: what was written" pattern check -d -q -b 64k -s 3 "$dev" 64k
	check "$fs: what was discarded" cmp -n 64K -i 4M:0 "$dev" /dev/zero
	detach "$dev"
	end_fs
done
