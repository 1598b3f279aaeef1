#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: images on file systems with small blocks, clusters, and without extents are mapped and written to where they are; a file whose data ext4 journals is not
# modes: side-by-side
# machines: lts-side-by-side
# timeout: 400
. tests/guest/lib.sh
. tests/programs/lib.sh
. tests/guest/guard.sh
programs loopdev pattern

# works WHAT - an image is mapped, writes arrive, the file next to it is as it was
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
		check "$what: written to a hole at $at" pattern write -d -q -b 3k -s 3 -o "$at" "$sparse" 96k
	done
	wait_until 20 maps "$sparse" $((96 << 12))
	for at in 0 512k 1027k 2M; do
		check "$what: written again" pattern write -d -q -b 3k -s 4 -o "$at" "$sparse" 96k
	done
	detach "$dev" "$sparse"
	drop_caches
	check "$what: the image" pattern check -q -b 16k -s 2 "$MNT/image" 2M
	for at in 0 512k 1027k 2M; do
		check "$what: what was a hole" pattern check -q -b 3k -s 4 -o "$at" "$MNT/sparse" 96k
	done
	check "$what: what is one" cmp -n 400K -i 100K:0 "$MNT/sparse" /dev/zero
	check "$what: the neighbour" pattern check -q -s 7 "$MNT/neighbour" 2M
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
sleep 0.5
is "a file whose data is journalled" "$(attr "$dev" loop/mapped) $(attr "$dev" loop/mapped_bytes)" "0 0"
goes_through_file "a file whose data is journalled" "$dev"
detach "$dev"
end_fs
