#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: Mapping can be turned off, and a device detached, while a mapped write
#   hangs in the disk and another opener waits for it, and while others open the
#   image all the time. Turning it off doesn't wait until all is written that
#   another writer has left in the page cache.
# modes: side-by-side
# machines: lts-side-by-side
# cpus: 2
# timeout: 400
. tests/lib/guard.sh
programs loopdev pattern other

mapping() {
	echo "$2" >"/sys/block/${1#/dev/}/loop/mapping"
}

# in_pieces - the driver writes the pages of an image back
in_pieces() {
	grep -qs floop_cache_write_pieces /proc/[0-9]*/stack
}

for fs in $(file_systems xfs); do
	begin_fs "$fs"
	later dmsetup resume below
	written "$MNT/image" 4M 1
	dev=$(attach "$MNT/image")
	wait_mapped "$dev"

	mapped=$(ios "$dev" mapped)
	dmsetup suspend --noflush --nolockfs below
	pattern write -d -n -q -b 64k -s 2 "$dev" 64k &
	writer=$!
	wait_until 20 more_ios "$dev" mapped "$mapped"
	xfs_io -c "fpunch 1m 64k" "$MNT/image" &
	changer=$!
	wait_until 20 waits_in "$changer" "inode_dio_wait\|xfs_ilock"
	mapping "$dev" 0 &
	off=$!
	wait_until 20 waits_in "$off" floop_guard_stop
	dmsetup resume below
	wait "$writer" || fail "$fs: the write failed"
	wait "$changer" || fail "$fs: the hole failed"
	wait "$off" || fail "$fs: mapping was not turned off"
	check "$fs: the write" pattern check -d -q -b 64k -s 2 "$dev" 64k
	check "$fs: the hole" cmp -n 64K -i 1M:0 "$dev" /dev/zero
	check "$fs: written again" pattern write -d -q -s 1 "$dev" 4M

	mapping "$dev" 1
	wait_mapped "$dev"
	(while :; do other nonblock r "$MNT/image"; done) &
	opener=$!
	for _ in 1 2 3 4 5 6 7 8 9 10; do
		mapping "$dev" 0
		mapping "$dev" 1
		sleep 0.0"$((RANDOM % 10))"
	done
	check "$fs: with openers all the time" \
		pattern check -d -q -s 1 "$dev" 4M
	detach "$dev"
	kill "$opener"
	wait "$opener" || true
	dev=$(attach "$MNT/image")
	wait_mapped "$dev"
	check "$fs: mapped again" pattern check -d -q -s 1 "$dev" 4M
	detach "$dev"

	# While the pages of another writer are written to a slow disk
	written "$MNT/large" 96M 1
	dev=$(attach "$MNT/large")
	wait_mapped "$dev"
	below_takes 0 1000 1000
	pattern write -n -q -s 2 "$MNT/large" 96M
	wait_until 20 in_pieces
	mapping "$dev" 0
	dirty=$(awk '$1 == "Dirty:" { print $2 }' /proc/meminfo)
	[ "$dirty" -ge $((32 << 10)) ] ||
		fail "$fs: of 96 MiB only $((dirty >> 10)) were left to write"
	below_takes 0 0 0
	check "$fs: what it reads" pattern check -d -q -s 2 "$dev" 96M
	detach "$dev"
	rm "$MNT/large"
	end_fs
done
