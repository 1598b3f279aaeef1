#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: An image whose ends are contiguous on the disk, with another file's
#   blocks between them, is mapped to its own blocks.
# modes: side-by-side
# machines: stable-side-by-side
. tests/lib/guard.sh
programs loopdev pattern

# block FILE MEGABYTE - the block of the file system that it is in
block() {
	filefrag -v -b4096 "$1" | awk -F '[ .:]+' -v want=$(($2 * 256)) '
		$1 == "" && $2 ~ /^[0-9]+$/ && $3 <= want && want <= $4 {
			print $5 + want - $3
		}'
}

# fill_up FILE - until nothing is free
fill_up() {
	local step at=0
	for step in $((64 << 20)) $((1 << 20)) 4096; do
		while fallocate -o $at -l $step "$1" 2>/dev/null; do
			at=$((at + step))
		done
	done
}

# nothing_reserved - fill_up takes all that is free
nothing_reserved() {
	if [ "$FS" = ext4 ]; then
		echo 0 >"/sys/fs/ext4/$(basename "$(
			readlink -f /dev/mapper/below)")/reserved_clusters"
	else
		xfs_io -x -c "resblks 0" "$MNT" >/dev/null
	fi
}

for fs in $(file_systems ext4); do
	begin_fs "$fs"
	nothing_reserved
	written "$MNT/image" 8M 1
	sync
	whole=$(block "$MNT/image" 5)
	fill_up "$MNT/ballast"
	# The other file takes the blocks of the image's middle. The lookup
	# doubles the length: the first 4 MiB are contiguous, and 8 MiB by their
	# ends.
	check "$fs: a hole" xfs_io -c "fpunch 5m 1m" "$MNT/image"
	sync
	fill_up "$MNT/other"
	truncate -s $(($(stat -c %s "$MNT/ballast") - (8 << 20))) \
		"$MNT/ballast"
	sync
	size=$(stat -c %s "$MNT/other")
	check "$fs: the other file" pattern write -q -s 7 "$MNT/other" "$size"
	check "$fs: the hole is filled" \
		pattern write -q -b 64k -s 1 -o 5m "$MNT/image" 1M
	sync
	is "$fs: the image's end" "$(block "$MNT/image" 7)" \
		$(($(block "$MNT/image" 0) + 7 * 256))
	[ "$(block "$MNT/image" 5)" != "$whole" ] ||
		fail "$fs: the middle is where it was"
	dev=$(attach "$MNT/image")
	wait_mapped "$dev"
	goes_mapped "$fs: reads" "$dev"
	check "$fs: written" pattern write -d -q -b 64k -s 2 "$dev" 8M
	detach "$dev"
	drop_caches
	check "$fs: the image" pattern check -q -b 64k -s 2 "$MNT/image" 8M
	check "$fs: the other file is as it was" \
		pattern check -q -s 7 "$MNT/other" "$size"
	end_fs
done
