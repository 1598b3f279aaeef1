#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: A truncate(2) of the image waits for a chunk that is in flight, a
#   freeze for the truncate, and a write for the thaw. The chunk ends all the
#   same, written or failed, with one worker for all of it, and they go on.
# modes: side-by-side
# cpus: 2
# timeout: 300
. tests/lib/guard.sh
later load_module "$MODULE_FILE"
load_module "$MODULE_FILE" hw_queue_depth=1
programs loopdev pattern other

zeroed() {
	[ "$(loop_stat "$dev" zeroed_bytes)" -gt 0 ]
}

# Where the image's byte 1040k is on the disk, in sectors
place() {
	xfs_io -r -c "fiemap 1040k 4k" "$MNT/image" | awk '
		/\[/ {
			split($2, range, /[^0-9]+/)
			split($3, disk, /\.\./)
			print disk[1] + 2080 - range[2]
			exit
		}'
}

# breaks_at SECTOR - the disk below, there
breaks_at() {
	local size where from
	read -r _ size _ where from < <(dmsetup table below)
	dm_becomes below "0 $1 linear $where $from
$1 8 error
$(($1 + 8)) $((size - $1 - 8)) linear $where $((from + $1 + 8))"
}

# goes_on WHAT - a write to a hole, a truncate, a freeze and another write
goes_on() {
	local chunk truncate freeze write size
	size=$(stat -c %s "$MNT/image")
	dmsetup suspend --noflush --nolockfs below
	pattern write -d -n -q -b 4k -s 5 -o 1040k "$dev" 4k >"$WORK/chunk" &
	chunk=$!
	wait_until 20 zeroed
	other truncate "$MNT/image" "$size" &
	truncate=$!
	wait_until 20 waits_in $truncate __break_lease
	fsfreeze -f "$MNT" &
	freeze=$!
	wait_until 20 waits_in $freeze freeze_super
	pattern write -d -n -q -b 4k -s 6 -o 8M "$dev" 4k &
	write=$!
	sleep 0.3
	dmsetup resume below
	wait $truncate || fail "$fs: $1: truncate failed"
	wait $freeze || fail "$fs: $1: the freeze failed"
	check "$fs: $1: thawed" fsfreeze -u "$MNT"
	wait $write || fail "$fs: $1: the write beside it failed"
	wait $chunk || [ "$1" = "a bad sector" ] ||
		fail "$fs: $1: the write failed: $(cat "$WORK/chunk")"
}

# Each kernel with one of the two
fs=ext4
[ "$KERNEL" != lts ] || fs=xfs
begin_fs "$fs"
later dmsetup resume below
fallocate -l 16M "$MNT/image"
sync
dev=$(attach "$MNT/image")
allocate "$dev" 64k
wait_until 30 mapped "$dev"
udev_settle
table=$(dmsetup table below)
goes_on "a chunk"
detach "$dev"
rm "$MNT/image"

fallocate -l 16M "$MNT/image"
sync
place=$(place)
dev=$(attach "$MNT/image")
allocate "$dev" 64k
wait_until 30 mapped "$dev"
udev_settle
breaks_at "$place"
goes_on "a bad sector"
dm_becomes below "$table"
check "$fs: the other write" pattern check -d -q -b 4k -s 6 -o 8M \
	"$dev" 4k
is "$fs: blocks of the image" "$(stat -c '%b / 2048' "$MNT/image")" \
	"32768 / 2048"
detach "$dev"
rm "$MNT/image"
end_fs
