#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: Zeroes are written ahead while others take all the space there is, or
#   use up the owner's quota, and give it back, over and over. Writes fail then
#   with ENOSPC or EDQUOT, and have changed nothing. All others are there, and
#   the file system is clean.
# modes: side-by-side
# machines: stable-side-by-side lts-side-by-side
# debug: also
# cpus: 2
# timeout: 400
. tests/lib/guard.sh
programs loopdev pattern keeper
seed

size=$((24 << 20))

# What a file had is free a while after its removal.
remove() {
	truncate -s 0 "$@"
	rm "$@"
}

# The holes of the image fit, and there is a little more: zeroes are written.
# Then there is next to nothing.
no_space() {
	local bytes n=0
	fallocate -l $(($(bytes_free) - size - RANDOM * 32)) "$MNT/most" \
		2>/dev/null
	sleep "0.0$((RANDOM % 10))"
	for ((bytes = $(bytes_free); bytes >= 4096; )); do
		fallocate -l "$bytes" "$MNT/rest.$n" 2>/dev/null ||
			bytes=$((bytes / 2))
		n=$((n + 1))
	done
	sleep "0.$((RANDOM % 3))"
	remove "$MNT/most" "$MNT"/rest.*
	sleep "0.0$((RANDOM % 10))"
}

# The driver looks every second whether a quota is enforced.
no_quota() {
	xfs_quota -x -c "enable -u" "$MNT"
	sleep "0.$((RANDOM % 9))"
	xfs_quota -x -c "disable -u" "$MNT"
	sleep 1
}

# without WHAT TIMES COMMAND - room, with writes to holes: there is less than
# the image needs until a write has failed
without() {
	local what=$1 times=$2 image=$MNT/image
	shift 2
	mkimage $size "$image" >/dev/null
	chown 1000 "$image"
	dev=$(attach "$image")
	allocate "$dev" 64k
	wait_until 30 mapped "$dev"
	begin_writes "$dev" $size -b 4k -t 4 -s "$SEED" -f
	wait_until 60 grep -q "no room" "$WORK/keeper"
	[ ! -e "$MNT/most" ] || remove "$MNT/most"
	for ((i = 0; i < times; i++)); do
		"$@"
	done
	end_writes "$fs: $what: what was written"
	[ "$(loop_stat "$dev" zeroed_bytes)" -gt 0 ] ||
		fail "$fs: $what: no zeroes were written"
	echo "$(loop_stat "$dev" zeroed_bytes) bytes of zeroes"
	detach "$dev"
	check "$fs: $what: and in the file" keeper check -b 4k -s "$SEED" \
		-m "$WORK/model" "$image" $size
	remove "$image"
	SEED=$((SEED + 1))
}

mark=/sys/module/$MODULE/parameters/leave_free
later sh -c "echo 5 >$mark"
echo 0 >"$mark"
for fs in $(file_systems xfs); do
	begin_fs "$fs"
	for round in 1 2; do
		fallocate -l $(($(bytes_free) - size / 2)) "$MNT/most"
		without "no space, round $round" 10 no_space
	done
	if [ "$fs" = xfs ]; then
		unmount "$MNT"
		mount_at /dev/mapper/below "$MNT" -o uquota
		xfs_quota -x -c "limit bhard=12m 1000" "$MNT"
		without "no quota" 4 no_quota
	fi
	end_fs
done
