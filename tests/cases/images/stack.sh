#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: file systems on devices on files, eight levels deep, hold what was written at the top
# machines: lts-drop-in stable-side-by-side
. tests/guest/lib.sh
. tests/guest/images.sh

# Each level: a file system on the device below, and on it the image of the next one.
kinds=(ext4 xfs ext4 ext4 xfs ext4 ext4 ext4)
sizes=(900M 800M 440M 420M 400M 60M 40M 24M)
on_disk "${kinds[0]}"
for level in 1 2 3 4 5 6 7 8; do
	image=$(mkimage "${sizes[level - 1]}" "$MNT/image")
	device=$(attach "$image")
	later detach "$device"
	echo "level $level: $device, direct: $(dio "$device"), sectors of $(attr "$device" queue/logical_block_size)"
	[ "$level" -lt 8 ] || break
	make_fs "${kinds[level]}" "$device"
	MNT=$WORK/level-$level
	mount_at "$device" "$MNT"
done
noise "$WORK/noise" 4
put "$WORK/noise" 2 4 "$device" oflag=direct
check "flush" sync "$device"
drop_caches
check "at the top it reads as written" cmp -n 4M -i 0:2M "$WORK/noise" "$device"
check "and so does the file it is in" cmp -n 4M -i 0:2M "$WORK/noise" "$image"
check "discard goes through" blkdiscard -o 3M -l 1M "$device"
check "and is zero in the file" cmp -n 1M -i 3M:0 "$image" /dev/zero
