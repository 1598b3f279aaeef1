#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: floop create makes images that are mapped as a whole, and floop resize
#   lets mounted file systems and their image grow, and shrink again.
# kernels: stable
# modes: side-by-side
# timeout: 240
. tests/lib/cli.sh

map_images

# all_mapped DEVICE - every byte of it
all_mapped() {
	[ "$(loop_stat "$1" mapped_bytes)" = $(($(attr "$1" size) * 512)) ]
}

# no_room DEVICE - it must stay as it is where the disk has no room
no_room() {
	local before out
	before=$(attr "$1" size)
	out=$("$FLOOP" resize "$1" 100G 2>&1) && fail "there is no room: $out"
	matches "what it says" "$out" "*no space left on device*"
	is "its size" "$(attr "$1" size)" "$before"
	is "the image's size" "$(stat -c %s "$MNT/image")" $((before * 512))
	wait_until 20 all_mapped "$1"
}

for fs in ext4 xfs; do
	on_disk "$fs"
	image=$MNT/image
	is "$fs: create is silent" "$("$FLOOP" create "$image" 20M 2>&1)" ""
	dev=$("$FLOOP" attach --mapping on "$image")
	wait_until 20 all_mapped "$dev"
	# A file system would make holes: it lets the disk zero its tables.
	check "$fs: grow what is mapped" "$FLOOP" resize "$dev" 24M
	wait_until 20 all_mapped "$dev"

	no_room "$dev"
	make_fs ext4 "$dev"
	mount_at "$dev" "$WORK/mnt"
	matches "$fs: grow in use" "$("$FLOOP" resize "$dev" +24M 2>&1)" \
		"*grow it: resize2fs $dev*"
	check "$fs: what is on it grows" resize2fs "$dev"
	is "$fs: the device" "$(attr "$dev" size)" $((48 << 11))
	ends_with 4 "floop: $dev: is in use: *" resize --shrink "$dev" 24M
	unmount "$WORK/mnt"

	ends_with 7 "floop: $image: holds an ext file system that needs *" \
		resize --shrink "$image" 24M
	check "$fs: e2fsck" e2fsck -fp "$dev"
	check "$fs: what is on it shrinks" resize2fs "$dev" 20M
	check "$fs: shrink" "$FLOOP" resize --shrink "$image" 24M
	is "$fs: the device" "$(attr "$dev" size)" $((24 << 11))
	check "$fs: e2fsck" e2fsck -fn "$dev"
	check "$fs: detach" "$FLOOP" detach "$dev"
	rm "$image"
	unmount "$MNT"
done

image=$(mkimage 64M)
check "a GPT that ends with its partitions" sfdisk -q "$image" <<-'END'
	label: gpt
	last-lba: 34815
	size=8MiB
	size=8MiB
END
dev=$("$FLOOP" attach --partscan "$image")
ends_with 7 "floop: $dev: holds a GPT that needs 17842688 bytes; *" \
	resize --shrink "$dev" 17M
check "shrink to the end of the table" "$FLOOP" resize --shrink "$dev" 17842688
check "partitions are there" [ -b "${dev}p2" ]
floop_detach "$dev"
dev=$("$FLOOP" attach --partscan "$image")
check "partitions are there again" [ -b "${dev}p2" ]
floop_detach "$dev"
