#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: A stack of eight devices, each on a file of a file system on the one
#   below, works while memory is short. Its data is right at the top and at the
#   bottom.
# kernels: stable
# modes: side-by-side
# cpus: 2
# memory: 512M
# disks: nvme:4G
# timeout: 400
# long: yes
. tests/lib/hog.sh
programs loopdev pattern hog

levels=8
size=3800
disk=$(the_disk 1)
make_fs xfs "$disk"
mkdir "$WORK/0"
mount "$disk" "$WORK/0"
for ((level = 1; level <= levels; level++)); do
	# Each is a bit smaller than the one below, which has its own structures
	# as well.
	size=$((size - 150))
	image=$(mkimage "${size}M" "$WORK/$((level - 1))/image")
	if ((level % 4)); then how=direct; else how=buffered; fi
	dev=$(loop_attach "$how" "$image")
	devices[level]=$dev
	if ((level % 2)); then fs=ext4; else fs=xfs; fi
	make_fs "$fs" "$dev"
	mkdir "$WORK/$level"
	mount "$dev" "$WORK/$level"
	echo "level $level: $dev, $fs, is direct: $(dio "$dev")"
done

# The debug kernel takes more for itself, and is slow
begin_hog "$(more 220 100)M"
for file in 1 2 3; do
	pattern write -b 256k -s "$file" "$WORK/$levels/file.$file" \
		"$(more 16 8)M" &
	writers[file]=$!
done
for file in 1 2 3; do
	wait "${writers[file]}"
done
drop_caches
for file in 1 2 3; do
	pattern check -b 256k -s "$file" "$WORK/$levels/file.$file" \
		"$(more 16 8)M"
done
end_hog

for ((level = levels; level > 0; level--)); do
	unmount "$WORK/$level"
	loopdev detach "${devices[level]}"
done
unmount "$WORK/0"

# All of it again, from the disk: every level recovers and is clean
mount "$disk" "$WORK/0"
for ((level = 1; level <= levels; level++)); do
	devices[level]=$(loop_attach direct "$WORK/$((level - 1))/image")
	if ((level % 2)); then
		check "level $level is clean" fsck.ext4 -fn "${devices[level]}"
	else
		check "level $level is clean" xfs_repair -n "${devices[level]}"
	fi
	mount "${devices[level]}" "$WORK/$level"
done
for file in 1 2 3; do
	check "file $file is right" \
		pattern check -b 256k -s "$file" "$WORK/$levels/file.$file" \
		"$(more 16 8)M"
done
for ((level = levels; level > 0; level--)); do
	unmount "$WORK/$level"
	loopdev detach "${devices[level]}"
done
unmount "$WORK/0"
