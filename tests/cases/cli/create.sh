#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: Where the file system has no files without a name, floop create leaves
#   nothing half-made either. A disk that can makes the zeroes itself: they are
#   written blocks, and no zeroes are sent to it.
# kernels: stable
# modes: side-by-side
. tests/lib/cli.sh

mkdir "$WORK/small" "$WORK/fuse"
mount -t tmpfs -o size=16M none "$WORK/small"
later unmount "$WORK/small"
bindfs "$WORK/small" "$WORK/fuse"
later unmount "$WORK/fuse"
ends_with 1 "floop: $WORK/fuse/large: *no space left on device*" \
	create "$WORK/fuse/large" 64M
is "what is left" "$(ls -A "$WORK/small")" ""
check "what has room" "$FLOOP" create "$WORK/fuse/small" 8M
is "its size" "$(stat -c %s "$WORK/small/small")" $((8 << 20))

# sent PATTERN - bytes of such requests (W: write, WZ: write zeroes) that the
# first disk got
sent() {
	awk -v request=": $number $1 " 'match($0, request) {
		bytes += substr($0, RSTART + RLENGTH)
	} END { print bytes + 0 }' "$tracing/trace"
}

# written_blocks FILE - KiB of it in blocks that are allocated and were written
written_blocks() {
	filefrag -v -b1024 "$1" | awk -F : '
		/^ *[0-9]+:/ && !/unwritten/ { n += $4 } END { print n + 0 }'
}

disk=$(the_disk 1)
number=$(tr : , <"/sys/block/${disk#/dev/}/dev")
carve "$disk" small 0 320
begin_tracing
for fs in ext4 xfs; do
	# The image's blocks hold other data.
	xfs_io -d -c "pwrite -q -S 1 -b 4m 0 320m" /dev/mapper/small
	case $fs in
	# ext4lazyinit would have the disk make zeroes, too.
	ext4) on_disk ext4 /dev/mapper/small \
		-E nodiscard,lazy_itable_init=0 ;;
	xfs) on_disk xfs /dev/mapper/small -K ;;
	esac
	echo >"$tracing/trace"
	echo 1 >"$tracing/events/block/block_rq_issue/enable"
	check "$fs: create" "$FLOOP" create "$MNT/image" 32M
	echo 0 >"$tracing/events/block/block_rq_issue/enable"
	is "$fs: zeroes that the disk made" "$(sent 'WZ[A-Z]*')" $((32 << 20))
	n=$(sent 'W[A-Y]*')
	[ "$n" -lt $((1 << 20)) ] || fail "$fs: $n bytes were written"
	echo "ok: $fs: written beside that: $n bytes"
	is "$fs: KiB in written blocks" "$(written_blocks "$MNT/image")" 32768
	drop_caches
	check "$fs: it reads as zeroes" \
		cmp -n $((32 << 20)) "$MNT/image" /dev/zero
	unmount "$MNT"
done
