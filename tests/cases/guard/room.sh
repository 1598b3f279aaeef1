#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: Allocating ahead takes no room that others need. As much stays free as
#   leave_free says, however fast holes are written, and of an image whose holes
#   don't fit, nothing is allocated ahead. Where a quota is enforced,
#   the owner has it for data only. A write here and there isn't taken for a run
#   by auto. There is no chunk while a page of the image may be the only place
#   of its data.
# modes: side-by-side
# machines: stable-side-by-side
# timeout: 400
. tests/lib/guard.sh
programs loopdev pattern

# sparse UNIT SIZE
sparse() {
	rm -f "$MNT/image"
	mkimage "$2" "$MNT/image" >/dev/null
	chown 1000 "$MNT/image"
	dev=$(attach "$MNT/image")
	allocate "$dev" "$1"
	wait_until 30 mapped "$dev"
}

# scattered SIZE - 4 KiB of every 64
scattered() {
	check "$what: writes to holes" \
		pattern write -d -n -q -b 4k -k 64k -s 5 "$dev" "$1"
	check "$what: they are there" \
		pattern check -d -q -b 4k -k 64k -s 5 "$dev" "$1"
}

# leave MEGABYTES - more than what is to stay free
leave() {
	rm -f "$MNT/filler"
	fallocate -l $(($(megabytes_free) - mark - $1))M "$MNT/filler"
}

free_space() {
	local mark
	mark=$(($(stat -f -c '%b * %S' "$MNT") / 20 >> 20))
	what="$fs: holes that don't fit"
	sparse 64k 26M
	leave 18
	scattered 8M
	is "$what: zeroes" "$(loop_stat "$dev" zeroed_bytes)" 0
	detach "$dev"

	what="$fs: free space"
	sparse 64k 26M
	leave 36
	scattered 26M
	[ "$(loop_stat "$dev" zeroed_bytes)" -gt $((16 << 20)) ] ||
		fail "$what: $(loop_stat "$dev" zeroed_bytes) zeroes"
	[ "$(megabytes_free)" -ge "$mark" ] ||
		fail "$what: $(megabytes_free) MiB are left of $mark"
	detach "$dev"
	rm "$MNT/filler"
}

quota() {
	what="$fs: a quota"
	sparse 64k 64M
	check "$what" xfs_quota -x -c "limit bhard=8m 1000" "$MNT"
	scattered 64M
	is "$what: zeroes" "$(loop_stat "$dev" zeroed_bytes)" 0
	detach "$dev"
}

# One run, and then a write at each place where it would go on
no_run() {
	local n taken
	what="$fs: no run"
	sparse auto 200M
	check "$what: a run" pattern write -d -n -q -b 4k -s 1 "$dev" 8M
	[ "$(loop_stat "$dev" zeroed_bytes)" -gt $((4 << 20)) ] ||
		fail "$what: a run allocated" \
			"$(loop_stat "$dev" zeroed_bytes) bytes"
	for ((n = 0; n < 20; n++)); do
		wait_until 30 settled
		pattern write -d -n -q -b 4k -s 2 \
			-o "$(loop_stat "$dev" mapped_bytes)" "$dev" 4k
	done
	taken=$(($(stat -c %b "$MNT/image") / 2048))
	[ "$taken" -le 24 ] || fail "$what: 20 writes took $taken MiB"
	echo "ok: $what: 8 MiB and 20 blocks take $taken MiB"
	detach "$dev"
}

# settled - what is written is mapped, and behind it is a hole
settled() {
	local was
	was=$(loop_stat "$dev" mapped_bytes)
	sleep 0.3
	[ "$was" = "$(loop_stat "$dev" mapped_bytes)" ]
}

# A direct write of half a block to a file that shares blocks goes to the page
# cache on xfs, where it stays while the disk hangs. The driver looks whether it
# still shares some now, and not again for ten seconds.
cached() {
	local writer before
	what="$fs: a page"
	set_helper ""
	rm -f "$MNT/image"
	pattern write -q -b 4k -s 1 "$MNT/image" 4k
	truncate -s 8M "$MNT/image"
	cp --reflink=always "$MNT/image" "$MNT/clone"
	sync
	dev=$(attach "$MNT/image")
	allocate "$dev" 64k
	wait_until 30 reads_shared
	wait_until 30 mapped "$dev"
	dmsetup suspend --noflush --nolockfs below
	later dmsetup resume below
	# Not as a chunk, which is whole blocks
	allocate "$dev" off
	check "$what: half a block" \
		pattern write -d -n -q -b 512 -s 2 -o 1064k "$dev" 512
	allocate "$dev" 64k
	before=$(ios "$dev" file)
	pattern write -d -n -q -b 4k -s 3 -o 1M "$dev" 4k &
	writer=$!
	wait_until 20 more_ios "$dev" file "$before"
	sleep 1
	is "$what: zeroes around it" "$(loop_stat "$dev" zeroed_bytes)" 0
	dmsetup resume below
	wait $writer || fail "$what: the write beside it failed"
	check "$what: it is there" \
		pattern check -d -q -b 512 -s 2 -o 1064k "$dev" 512
	check "$what: and what is beside it" \
		pattern check -d -q -b 4k -s 3 -o 1M "$dev" 4k
	detach "$dev"
	rm "$MNT/clone"
}

for fs in $(file_systems xfs); do
	begin_fs "$fs"
	free_space
	no_run
	if [ "$fs" = xfs ]; then
		cached
		unmount "$MNT"
		mount_at /dev/mapper/below "$MNT" -o uquota
		quota
	fi
	end_fs
done
