#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: A sparse image on a sparse image on a sparse one, each with zeroes
#   written ahead and mapped, works while memory is short. Files are written at
#   the top, removed and trimmed, and written again. What is there is right, at
#   the top and after all has been detached, and every file system is clean.
# modes: side-by-side
# machines: stable-side-by-side
# debug: also
# cpus: 2
# memory: 768M
# disks: nvme:2G
# timeout: 400
. tests/lib/guard.sh
. tests/lib/hog.sh
programs loopdev pattern hog
seed

levels=3
begin_fs xfs
at=$MNT
for ((level = 1; level <= levels; level++)); do
	# Its holes have to fit, and five percent more.
	image=$(mkimage $((650 - level * 150))M "$at/image")
	devices[level]=$(attach "$image")
	# A chunk is a write to a hole below, too, and makes a larger one there.
	allocate "${devices[level]}" $((128 >> level))k
	fs=xfs block=size=4k
	# As it is on a larger device: on a small one ext4 has blocks of 1 KiB.
	! ((level % 2)) || fs=ext4 block=4k
	kinds[level]=$fs
	make_fs "$fs" "${devices[level]}" -b $block
	at=$WORK/$level
	mount_at "${devices[level]}" "$at"
	echo "level $level: ${devices[level]}, $fs"
done

# The debug kernel takes more for itself
begin_hog "$(more 300 150)M"

# together VERB SEED - on three files at the top
together() {
	local file verb=$1 seed=$2
	for file in 1 2 3; do
		pattern "$verb" -q -d -b 4k -s $((seed + file)) \
			"$at/file.$file" 2M &
		others[file]=$!
	done
	for file in 1 2 3; do
		wait "${others[file]}" || fail "$verb, file $file"
	done
}

for round in 1 2; do
	together write "$SEED"
	check "round $round: trimmed" fstrim "$at"
	together check "$SEED"
	[ "$round" = 2 ] && break
	rm "$at"/file.*
	check "round $round: trimmed with nothing there" fstrim "$at"
	SEED=$((SEED + 10))
done
end_hog
for ((level = 1; level <= levels; level++)); do
	wait_until 30 mapped "${devices[level]}"
	[ "$(loop_stat "${devices[level]}" zeroed_bytes)" -gt 0 ] ||
		fail "level $level: no zeroes were written"
	[ "$(ios "${devices[level]}" mapped)" -gt 0 ] ||
		fail "level $level: no I/O was mapped"
done

for ((level = levels; level > 0; level--)); do
	unmount "$WORK/$level"
	check "level $level is clean" \
		fsck_of "${kinds[level]}" "${devices[level]}"
	detach "${devices[level]}"
done
end_fs

# All of it again, from the disk
mount_at /dev/mapper/below "$MNT"
at=$MNT
for ((level = 1; level <= levels; level++)); do
	devices[level]=$(attach "$at/image")
	at=$WORK/$level
	mount_at "${devices[level]}" "$at"
done
together check "$SEED"
for ((level = levels; level > 0; level--)); do
	unmount "$WORK/$level"
	detach "${devices[level]}"
done
