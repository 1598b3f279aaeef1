#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: An image on a FUSE file system holds what its device was given, and
#   what was written with FUA is on the disk.
# machines: lts-side-by-side
. tests/lib/images.sh
map_images

begin_tracing
on_disk ext4
mkdir "$WORK/fuse"
bindfs "$MNT" "$WORK/fuse"
later unmount "$WORK/fuse"
# Where the FUSE server has no fallocate, discard is refused and zeroes are
# written.
image=$(mkimage 12M "$WORK/fuse/image")
noise "$WORK/noise" 4
device=$(attach "$image")
put "$WORK/noise" 1 4 "$device" oflag=direct
put "$WORK/noise" 6 2 "$device"
check "flush" sync "$device"
[ "$(fua_writes "$device")" -gt 0 ] ||
	fail "a write with FUA: $(tail -n 5 "$tracing/trace")"
echo "ok: a write with FUA"
put "$WORK/noise" 1 4 "$device" oflag=direct
drop_caches
model=$(mkimage 12M)
put "$WORK/noise" 1 4 "$model"
put "$WORK/noise" 6 2 "$model"
check "the device reads as written" cmp "$device" "$model"
check "and so does the file, through FUSE and past it" cmp "$image" "$model"
check "and past it" cmp "$MNT/image" "$model"
check "write zeroes" blkdiscard -z -o 2M -l 1M "$device"
dd if=/dev/zero of="$model" bs=1M seek=2 count=1 conv=notrunc status=none
check "they are there" cmp "$device" "$model"
blkdiscard -o 6M -l 1M "$device" || echo "no discard here"
check "the device still works" cmp -n 5M "$device" "$model"
detach "$device"
check "after detaching the file is as it should be" cmp -n 5M "$image" "$model"
