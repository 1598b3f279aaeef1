#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: Bios of 512 bytes, of 256 vectors and one more, and of 1 GiB are
#   written where they belong and read back right, mapped and through the file.
#   So are six of 832 MiB in one submission, more than 4 GiB together, through
#   the file. The image is on ext4 on stable, on xfs on lts.
# modes: side-by-side
# machines: stable-side-by-side
# disks: nvme:12G
# memory: 6G
# timeout: 600
# debug: no
# coverage: no
. tests/lib/guard.sh
programs loopdev bigio

huge=/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages
later eval "echo 0 >$huge"
echo 1 >"$huge"
is "huge pages of 1 GiB" "$(cat "$huge")" 1

# each_size WHAT SEED - a write, a check of the file, and a read: of 512 bytes,
# of 1 GiB, of 256 vectors and of one more
each_size() {
	local size
	for size in 512 1G; do
		check "$1: a write of $size" \
			bigio write "$dev" 64k "$size" 1 "$2"
		check "$1: what is there" bigio check "$dev" 64k "$size" 1 "$2"
		check "$1: a read of it" bigio read "$dev" 64k "$size" 1 "$2"
	done
	for size in 1M 1028k; do
		check "$1: a write of $size, in pages" \
			bigio -v write "$dev" 64k "$size" 1 "$2"
		check "$1: what is there" \
			bigio -v check "$dev" 64k "$size" 1 "$2"
		check "$1: a read of it" bigio -v read "$dev" 64k "$size" 1 "$2"
	done
}

fs=ext4
[ "$KERNEL" != lts ] || fs=xfs
on_disk "$fs"
truncate -s 5G "$MNT/image"
set_mapping 0
dev=$(attach "$MNT/image")
# io_uring may submit the first one by itself: five are more than 4 GiB, too
check "$fs: six writes" bigio write "$dev" 0 832M 6 1
check "$fs: the device has them" bigio check "$dev" 0 832M 6 1
detach "$dev"
check "$fs: the image has them" bigio check "$MNT/image" 0 832M 6 1

set_mapping 1
dev=$(attach "$MNT/image")
wait_mapped "$dev" 4992
mapped=$(ios "$dev" mapped)
each_size "$fs, mapped" 2
more_ios "$dev" mapped $((mapped + 20)) || fail "$fs: nothing was mapped"
echo 0 >"/sys/block/${dev#/dev/}/loop/mapping"
each_size "$fs, through the file" 3
detach "$dev"
unmount "$MNT"
