#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: A file system on a device takes more data than the machine has memory,
#   while the image's disk is slow. It goes on at the disk's speed, and nothing
#   is killed or hangs. With direct I/O the image stays out of the page cache.
# kernels: stable
# modes: side-by-side
# cpus: 2
# disks: nvme:4G
# memory: 512M
# timeout: 400
. tests/lib/hog.sh
programs loopdev pattern

# A disk that is far slower than memory, as in a failure of generic/590 and
# generic/361 of fstests
disk=$(the_disk 1)
echo "0 $(sectors "$disk") delay $disk 0 0 $disk 0 20" | dmsetup create slow
later dm_remove slow
size=$(more 640 380)
mkdir -p "$WORK/below" "$WORK/above"
make_fs ext4 /dev/mapper/slow

mount /dev/mapper/slow "$WORK/below"
before=$(killed)
echo "the disk's own file system:" \
	"$(pattern write -s 4 "$WORK/below/file" "${size}M")"
rm "$WORK/below/file"
for how in direct buffered; do
	mkimage $((size + 200))M "$WORK/below/image" >/dev/null
	dev=$(loop_attach "$how" "$WORK/below/image")
	make_fs ext4 "$dev"
	mount "$dev" "$WORK/above"
	echo "$how: $(pattern write -s 5 "$WORK/above/file" "${size}M")"
	cached=$(fincore -nbo RES "$WORK/below/image")
	echo "$how: $((cached >> 20)) MiB of the image in the page cache"
	[ "$how" = buffered ] || [ "$cached" -lt $((4 << 20)) ] ||
		fail "the image of a direct device fills the page cache"
	is "$how: processes killed for want of memory" "$(killed)" "$before"
	check "$how: the file is right" \
		pattern check -d -s 5 "$WORK/above/file" "${size}M"
	unmount "$WORK/above"
	loopdev detach "$dev"
	rm "$WORK/below/image"
done
unmount "$WORK/below"
