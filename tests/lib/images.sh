# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
# Images on every kind of file system and device.
[ -z "${IMAGES_SH-}" ] || return 0
IMAGES_SH=1
. tests/lib/case.sh

# is_direct DEVICE 0|1 - and dio_reason agrees
is_direct() {
	is "direct I/O" "$(dio "$1")" "$2"
	! in_tree || return 0
	if [ "$2" = 1 ]; then
		is "what is said about it" "$(attr "$1" loop/dio_reason)" direct
	else
		matches "what is said about it" \
			"$(attr "$1" loop/dio_reason)" "[!d]*"
	fi
}

# put FILE MEGABYTE COUNT TARGET [DD-OPTION]... - the file's beginning at that
# place of the target
put() {
	dd if="$1" of="$4" bs=64k seek=$(($2 * 16)) count=$(($3 * 16)) \
		conv=notrunc status=none "${@:5}"
}

# blocks FILE - the number of 512-byte blocks that it takes on its file system
blocks() {
	stat -c %b "$1"
}

# exercise IMAGE [PUNCHES] - an empty image of 12M. Write, overwrite, discard
# and flush through its device, and see that the device and the file hold the
# same as a model in memory that got the same. PUNCHES: yes if a discard must
# free the file's blocks, "no" if it need not
exercise() {
	local image=$1 punches=${2-yes} model=$WORK/model device before direct
	truncate -s 0 "$model"
	truncate -s 12M "$model"
	noise "$WORK/noise" 4
	noise "$WORK/other" 1
	device=$(attach "$image")
	direct=$(dio "$device")
	echo "direct: $direct," \
		"sectors of $(attr "$device" queue/logical_block_size)"

	put "$WORK/noise" 1 4 "$model"
	put "$WORK/noise" 1 4 "$device" oflag=direct
	put "$WORK/noise" 7 2 "$model"
	put "$WORK/noise" 7 2 "$device"
	put "$WORK/other" 2 1 "$model"
	put "$WORK/other" 2 1 "$device" oflag=direct
	check "flush" sync "$device"
	drop_caches
	check "the device reads as written" cmp "$device" "$model"
	check "and so does the file" cmp "$image" "$model"

	before=$(blocks "$image")
	dd if=/dev/zero of="$model" bs=1M seek=3 count=1 \
		conv=notrunc status=none
	check "discard" blkdiscard -o 3M -l 1M "$device"
	dd if=/dev/zero of="$model" bs=1M seek=8 count=1 \
		conv=notrunc status=none
	check "write zeroes" blkdiscard -z -o 8M -l 1M "$device"
	check "flush" sync "$device"
	check "what was discarded reads as zeros" cmp "$device" "$model"
	if [ "$punches" = yes ]; then
		[ "$(blocks "$image")" -lt "$before" ] ||
			fail "the discard freed no blocks of the file:" \
				"$before before, $(blocks "$image") after"
		echo "ok: the discard freed blocks of the file"
	fi

	# A sector alone, where sectors are smaller than the file system's
	# blocks.
	dd if="$WORK/other" of="$device" \
		bs="$(attr "$device" queue/logical_block_size)" count=1 seek=3 \
		oflag=direct conv=notrunc status=none
	dd if="$WORK/other" of="$model" \
		bs="$(attr "$device" queue/logical_block_size)" count=1 seek=3 \
		conv=notrunc status=none
	detach "$device"
	drop_caches
	check "after detaching the file is as the model" cmp "$image" "$model"

	device=$(attach --read-only "$image")
	check "attached again it reads the same" cmp "$device" "$model"
	refused "a read-only one is not written to" "*" \
		dd if=/dev/zero of="$device" count=1 conv=fsync
	detach "$device"
	check "the file is still as the model" cmp "$image" "$model"
}

# exercise_direct FS - an image on that file system, and direct I/O where it is
# asked for
exercise_direct() {
	local device
	on_disk "$1"
	exercise "$(mkimage 12M "$MNT/image")"

	device=$(attach --direct "$(mkimage 4M "$MNT/another")")
	is_direct "$device" 1
	detach "$device"
}

# passes_on DEVICE IMAGE MEGABYTE - what is written at that place of the device,
# 4M, gets to the image, however much is between them, and a discard does.
# Leaves what it wrote in $WORK/noise
passes_on() {
	local device=$1 image=$2 at=$3
	noise "$WORK/noise" 4
	put "$WORK/noise" "$at" 4 "$device" oflag=direct
	check "flush" sync "$device"
	drop_caches
	check "the device reads as written" \
		cmp -n 4M -i "0:${at}M" "$WORK/noise" "$device"
	check "and so does the image" cmp -n 4M -i "0:${at}M" "$WORK/noise" \
		"$image"
	check "discard" blkdiscard -o $((at + 1))M -l 1M "$device"
	check "discarded is zero" \
		cmp -n 1M -i $((at + 1))M:0 "$device" /dev/zero
	check "in the image, too" cmp -n 1M -i $((at + 1))M:0 "$image" /dev/zero
}
