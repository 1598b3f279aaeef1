#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: A file becomes a block device of its size, carries data, and is
#   detached again.
# machines: lts-side-by-side stable-drop-in
. tests/lib/case.sh

image=$(mkimage 8M)
device=$(attach "$image")
matches "its name" "$device" "/dev/${PREFIX}[0-9]*"
is "its size" "$(attr "$device" size)" 16384
is "its file" "$(attr "$device" loop/backing_file)" "$image"

noise "$WORK/data" 8
check "filling it" dd if="$WORK/data" of="$device" \
	bs=1M oflag=direct status=none
is "the file holds what was written" "$(sum_of "$image")" \
	"$(sum_of "$WORK/data")"
drop_caches
is "and it reads back" "$(sum_of "$device")" "$(sum_of "$WORK/data")"

detach "$device"
is "it is empty afterwards" "$(attr "$device" size)" 0
is "and there is no loop folder" \
	"$(ls -d "/sys/block/${device#/dev/}/loop" 2>/dev/null || true)" ""
