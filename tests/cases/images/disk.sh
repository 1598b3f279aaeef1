#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: A disk and a partition can be the image: I/O is direct, the content is
#   the same, and a discard reaches the disk.
# machines: lts-side-by-side stable-drop-in
. tests/lib/images.sh

disk=${DISKS%% *}
device=$(attach --size-limit 12M "$disk")
is "its size" "$(attr "$device" size)" 24576
[ "$DRIVER_MODE" = in-tree ] || is_direct "$device" 1
passes_on "$device" "$disk" 1
check "write zeroes" blkdiscard -z -o 3M -l 1M "$device"
drop_caches
check "zeroes are zero" cmp -n 1M -i 3M:0 "$disk" /dev/zero
detach "$device"

printf 'label: gpt\n2048,65536\n' | sfdisk -q "$disk"
udev_settle
device=$(attach "${disk}p1")
is "a partition: its size" "$(attr "$device" size)" 65536
make_fs ext4 "$device"
mkdir "$WORK/mnt"
mount "$device" "$WORK/mnt"
cp "$WORK/noise" "$WORK/mnt/"
umount "$WORK/mnt"
detach "$device"
check "the file system is on the partition" fsck.ext4 -fn "${disk}p1"
