#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: A chunk waits neither for direct I/O of a throttled cgroup nor, on xfs,
#   for a reader that has the inode's lock for as long as it likes: writes to
#   holes end, and so do opens of the image to write.
# modes: side-by-side
# machines: stable-side-by-side
. tests/lib/guard.sh
. tests/lib/cgroups.sh
programs loopdev pattern other

sparse() {
	mkimage 64M "$MNT/image" >/dev/null
	dev=$(attach "$MNT/image")
	allocate "$dev" 64k
	wait_until 30 mapped "$dev"
	udev_settle
	wait_until 20 reads_hole $((32 << 20)) 4096
}

# chunks WHAT - while that is so, a chunk is written
chunks() {
	local before
	before=$(loop_stat "$dev" zeroed_bytes)
	pattern write -d -n -q -b 4k -s 2 -o 32M "$dev" 4k &
	wait_until 20 ended $!
	wait $! || fail "$fs: a write to a hole despite $1 failed"
	is "$fs: zeroes despite $1" \
		$(($(loop_stat "$dev" zeroed_bytes) - before)) 61440
}

throttled() {
	local slow
	sparse
	may_write slow 10
	in_group slow dd if=/dev/zero of="$dev" bs=64k count=1 seek=100 \
		oflag=direct status=none &
	slow=$!
	wait_until 20 more_ios "$dev" file 0
	sleep 1
	chunks "a throttled write"
	check "$fs: an open to write" timeout 20 xfs_io -c quit "$MNT/image"
	kill -0 $slow || fail "$fs: the throttled write did not wait"
	may_write slow max
	wait $slow || fail "$fs: the throttled write failed"
	detach "$dev"
	rm "$MNT/image"
}

stuck_reader() {
	local reader
	sparse
	check "$fs: something to read" pattern write -d -n -q -b 4k -s 2 -o 4M \
		"$dev" 4k
	sync
	udevadm control --stop-exec-queue
	later udevadm control --start-exec-queue
	other stuck "$MNT/image" >"$WORK/said" 2>&1 &
	reader=$!
	wait_until 30 grep -q xfs_file "/proc/$reader/stack"
	wait_until 30 mapped "$dev"
	chunks "a stuck reader"
	kill $reader
	wait $reader || true
	udevadm control --start-exec-queue
	detach "$dev"
}

mount_cgroups
make_groups slow
later may_write slow max
for fs in ext4 xfs; do
	begin_fs "$fs"
	throttled
	[ "$fs" = ext4 ] || stuck_reader
	end_fs
done
