#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: Images on file systems with small blocks, with clusters and without
#   extents are mapped, and written to where they are. A file whose data ext4
#   journals or keeps in the inode is not mapped, nor is a realtime file.
# modes: side-by-side
# machines: lts-side-by-side
# timeout: 400
. tests/lib/guard.sh
programs loopdev pattern

# works WHAT - an image is mapped, writes arrive, the file next to it is as it
# was
works() {
	local what=$1
	written "$MNT/image" 2M 1
	written "$MNT/neighbour" 2M 7
	mkimage 3M "$MNT/sparse" >/dev/null
	dev=$(attach "$MNT/image")
	sparse=$(attach "$MNT/sparse")
	wait_mapped "$dev"
	goes_mapped "$what" "$dev"
	check "$what: written" pattern write -d -q -b 16k -s 2 "$dev" 2M
	for at in 0 512k 1027k 2M; do
		check "$what: written to a hole at $at" \
			pattern write -d -q -b 3k -s 3 -o "$at" "$sparse" 96k
	done
	wait_until 20 maps "$sparse" $((96 << 12))
	for at in 0 512k 1027k 2M; do
		check "$what: written again" \
			pattern write -d -q -b 3k -s 4 -o "$at" "$sparse" 96k
	done
	detach "$dev" "$sparse"
	drop_caches
	check "$what: the image" pattern check -q -b 16k -s 2 "$MNT/image" 2M
	for at in 0 512k 1027k 2M; do
		check "$what: what was a hole" \
			pattern check -q -b 3k -s 4 -o "$at" "$MNT/sparse" 96k
	done
	check "$what: what still is a hole" \
		cmp -n 400K -i 100K:0 "$MNT/sparse" /dev/zero
	check "$what: the neighbour" pattern check -q -s 7 "$MNT/neighbour" 2M
}

# not_mapped WHAT
not_mapped() {
	sleep 0.5
	is "$1: bytes mapped" "$(loop_stat "$dev" mapped_bytes)" 0
	goes_through_file "$1" "$dev"
}

begin_fs ext4 -b 1024
works "ext4, blocks of 1024"
end_fs
begin_fs ext4 -O bigalloc -C 65536
works "ext4, clusters of 64k"
end_fs
begin_fs ext4 -O ^extents,^64bit,^metadata_csum
works "ext4, no extents"
end_fs
begin_fs xfs -b size=1024
works "xfs, blocks of 1024"
end_fs

begin_fs ext4
# Not chattr +j: with delayed allocation ext4 takes no notice of it
unmount "$MNT"
mount -o data=journal /dev/mapper/below "$MNT"
written "$MNT/image" 2M 1
dev=$(attach "$MNT/image")
not_mapped "a file whose data is journalled"
is "a file whose data is journalled: mapped" "$(attr "$dev" loop/mapped)" 0
detach "$dev"
end_fs

begin_fs ext4 -O inline_data -I 1024
written "$MNT/image" 512 1
matches "a file in its inode" "$(lsattr "$MNT/image" | cut -d " " -f 1)" "*N*"
dev=$(attach "$MNT/image")
not_mapped "a file in its inode"
check "a file in its inode: written" dd if=/dev/urandom of="$dev" \
	bs=512 count=1 oflag=direct status=none
check "a file in its inode: what the device has" cmp "$dev" "$MNT/image"
detach "$dev"
end_fs

# The addresses of its blocks are another disk's
carve "$(the_disk 1)" realtime 700 100
make_fs xfs /dev/mapper/below -K -r rtdev=/dev/mapper/realtime
mount_at /dev/mapper/below "$WORK/realtime" -o rtdev=/dev/mapper/realtime
touch "$WORK/realtime/image"
check "a realtime file" xfs_io -c "chattr +r" "$WORK/realtime/image"
written "$WORK/realtime/image" 2M 1
dev=$(attach "$WORK/realtime/image")
not_mapped "a realtime file"
is "a realtime file: counted as shared" "$(ios "$dev" file_shared)" 0
check "a realtime file: written" pattern write -d -q -s 2 "$dev" 2M
detach "$dev"
check "a realtime file: what it holds" \
	pattern check -q -s 2 "$WORK/realtime/image" 2M
unmount "$WORK/realtime"
