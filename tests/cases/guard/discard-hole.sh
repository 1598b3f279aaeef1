#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: The discard of a known hole doesn't end an epoch: it doesn't wait for
#   mapped I/O that is on its way elsewhere. A block that is written while the
#   discard is in progress isn't mapped before it has ended, but then. What is
#   mapped then is where the file has it: nothing is written to what others
#   have.
# modes: side-by-side
# machines: stable-side-by-side
# module: debug
# timeout: 200
. tests/lib/guard.sh
load_debug
. tests/lib/cgroups.sh
programs pattern
mount_cgroups
make_groups beside

# epochs - how many have begun
epochs() {
	loop_stat "$dev" epochs_begun
}

# in_background COMMAND... - as $background
in_background() {
	"$@" &
	background=$!
}

for fs in ext4 xfs; do
	begin_fs "$fs"
	written "$MNT/image" 4M 1
	truncate -s 16M "$MNT/image"
	dev=$(attach "$MNT/image")
	allocate "$dev" off
	wait_until 30 maps "$dev" $((4 << 20))
	sleep 1
	begun=$(epochs)

	udev_settle
	window 60000 SUBMIT
	# -f: blkdiscard would look what is there, and be held up itself
	in_background dd if="$dev" of=/dev/null bs=4k count=1 skip=2 \
		iflag=direct status=none
	wait_until 20 in_window SUBMIT
	check "$fs: a discard" timeout 20 blkdiscard -f -o 4M -l 4M "$dev"
	check "$fs: zeroes" timeout 20 blkdiscard -f -z -o 8M -l 4M "$dev"
	kill -0 $background || fail "$fs: nothing was held up"
	window 0
	wait $background || fail "$fs: the read failed"
	is "$fs: epochs that have begun" "$(epochs)" "$begun"
	is "$fs: what is mapped" "$(loop_stat "$dev" mapped_bytes)" $((4 << 20))

	# A write beside it, by another writer, that of a cgroup: either may
	# come first
	udev_settle
	window 60000 CHANGE
	in_background blkdiscard -f -o 12M -l 4M "$dev"
	wait_until 20 in_window CHANGE
	for at in 12 10; do
		check "$fs: a write at ${at}M meanwhile" in_group beside \
			pattern write -d -n -q -b 64k -s 2 -o ${at}M "$dev" 1M
	done
	kill -0 $background || fail "$fs: the discard was not held up"
	sleep 1
	is "$fs: what is mapped of them" "$(loop_stat "$dev" mapped_bytes)" \
		$((4 << 20))
	window 0
	wait $background || fail "$fs: the discard failed"
	# What is in the discarded range was written before it was punched out
	wait_until 30 maps "$dev" $((5 << 20))
	check "$fs: somebody takes the blocks" written "$MNT/other" 8M 3

	# The file system is asked for blocks, which are discarded then
	udev_settle
	window 5000 FILL
	check "$fs: a write" pattern write -d -q -b 64k -s 2 -o 6M "$dev" 64k
	wait_until 20 in_window FILL
	check "$fs: a discard of another hole" blkdiscard -f -o 12M -l 4M "$dev"
	check "$fs: a discard of what was written" \
		blkdiscard -f -o 6M -l 64k "$dev"
	window 0
	check "$fs: somebody takes these blocks" written "$MNT/third" 8M 4

	# All is written, mapped or not, and mapped in the end
	for at in 4 6 8 10 12 14; do
		check "$fs: a write at ${at}M" \
			pattern write -d -q -b 64k -s 5 -o ${at}M "$dev" 2M
	done
	wait_until 30 maps "$dev" $((16 << 20))
	drop_caches
	check "$fs: the first of others" pattern check -q -s 3 "$MNT/other" 8M
	check "$fs: the second" pattern check -q -s 4 "$MNT/third" 8M
	for at in 4 6 8 10 12 14; do
		check "$fs: the device at ${at}M" \
			pattern check -d -q -b 64k -s 5 -o ${at}M "$dev" 2M
	done
	check "$fs: what was there" pattern check -d -q -s 1 "$dev" 4M
	detach "$dev"
	end_fs
done
