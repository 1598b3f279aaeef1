#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: A device asks its users for pages that stay unchanged while they are
#   written where direct I/O hands them to a file system that may checksum them
#   (btrfs, any unknown one) or to a disk that asks for it. It doesn't on ext4,
#   xfs, f2fs, vfat, tmpfs and other disks, nor where I/O is buffered.
#   LOOP_CHANGE_FD and LOOP_SET_DIRECT_IO decide it anew.
# modes: side-by-side
# machines: stable-side-by-side
. tests/lib/images.sh
programs loopdev

# asks WHAT DEVICE 0|1 - does the device ask for stable pages?
asks() {
	is "$1: direct I/O" "$(dio "$2")" 1
	is "$1: asks for stable pages" "$(attr "$2" queue/stable_writes)" "$3"
}

# wants WHAT IMAGE 0|1 - does a device of this image ask for stable pages?
wants() {
	local dev
	dev=$(attach --direct "$2")
	asks "$1" "$dev" "$3"
	check "$1: buffered I/O" loopdev direct "$dev" 0
	is "$1: asks for them then" "$(attr "$dev" queue/stable_writes)" 0
	check "$1: direct I/O again" loopdev direct "$dev" 1
	asks "$1, again" "$dev" "$3"
	detach "$dev"
}

# changes DEVICE WHAT IMAGE 0|1 - by LOOP_CHANGE_FD
changes() {
	check "another image" loopdev change "$1" "$3"
	asks "$2 since LOOP_CHANGE_FD" "$1" "$4"
}

disk=$(the_disk 1)
mount_at tmpfs "$WORK/tmpfs" -t tmpfs
mkimage 8M "$WORK/tmpfs/image" >/dev/null
wants tmpfs "$WORK/tmpfs/image" 0
wants "a disk" "$disk" 0
for fs in xfs f2fs vfat btrfs ext4; do
	on_disk "$fs"
	mkimage 8M "$MNT/image" >/dev/null
	case $fs in
	btrfs)
		wants btrfs "$MNT/image" 1
		dev=$(attach --read-only "$WORK/tmpfs/image")
		changes "$dev" btrfs "$MNT/image" 1
		changes "$dev" tmpfs "$WORK/tmpfs/image" 0
		detach "$dev"
		;;
	*) wants "$fs" "$MNT/image" 0 ;;
	esac
	[ "$fs" = ext4 ] || unmount "$MNT"
done

# An unknown file system: overlayfs
mkdir "$MNT/upper" "$MNT/work" "$WORK/merged"
mount_at overlay "$WORK/merged" -t overlay \
	-o "lowerdir=$WORK/tmpfs,upperdir=$MNT/upper,workdir=$MNT/work"
mkimage 8M "$WORK/merged/another" >/dev/null
wants overlayfs "$WORK/merged/another" 1
dev=$(attach --read-only "$MNT/image")
changes "$dev" overlayfs "$WORK/merged/another" 1
changes "$dev" ext4 "$MNT/image" 0
detach "$dev"
unmount "$WORK/merged"

setting() {
	echo "$1" >"/sys/block/${disk#/dev/}/queue/stable_writes"
}
later setting 0
setting 1
wants "ext4 on a disk that asks for them" "$MNT/image" 1
unmount "$MNT"
wants "such a disk" "$disk" 1
