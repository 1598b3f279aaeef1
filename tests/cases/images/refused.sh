#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: Some file systems claim direct I/O and refuse it (minix, and overlayfs
#   above one that has none). There I/O is buffered from the attach on, and none
#   fails. dio_reason says so, and LOOP_SET_DIRECT_IO is refused. A disk that
#   begins to refuse while in use stays in use, and nothing is lost.
# machines: stable-side-by-side lts-drop-in
. tests/lib/images.sh

# refuses WHAT IMAGE - and its device says so
refuses() {
	local device
	device=$(attach "$2")
	is "$1: direct" "$(dio "$device")" 0
	matches "$1: because" "$(attr "$device" loop/dio_reason)" \
		"*refuses direct I/O*"
	refused "$1: LOOP_SET_DIRECT_IO" "*" loopdev direct "$device" 1
	detach "$device"
}

disk=$(the_disk 1)
mkfs.minix -3 "$disk" >/dev/null
mount_at "$disk" "$WORK/minix"
refuses minix "$(mkimage 12M "$WORK/minix/image")"
noise "$WORK/noise" 4
device=$(attach "$WORK/minix/image")
put "$WORK/noise" 1 4 "$device" oflag=direct
check "minix: flush" sync "$device"
detach "$device"
drop_caches
check "minix: the file has what was written" \
	cmp -n $((4 << 20)) "$WORK/noise" \
	<(tail -c +$(((1 << 20) + 1)) "$WORK/minix/image")
unmount "$WORK/minix"

on_disk ext4
mkdir "$MNT/upper" "$MNT/work" "$WORK/merged"
mount_at ramfs "$WORK/lower" -t ramfs
dd if=/dev/urandom of="$WORK/lower/image" bs=1M count=12 status=none
mount_at overlay "$WORK/merged" -t overlay \
	-o "lowerdir=$WORK/lower,upperdir=$MNT/upper,workdir=$MNT/work"
device=$(attach --read-only "$WORK/merged/image")
matches "what lies below: because" "$(attr "$device" loop/dio_reason)" \
	"*refuses direct I/O*"
check "what lies below is there" cmp "$device" "$WORK/lower/image"
check "read directly from the device" \
	dd if="$device" of=/dev/null bs=64k iflag=direct status=none
detach "$device"
unmount "$WORK/merged"

# A disk of sectors of 512 bytes, and one of 4096 in its place
first=$(attach "$(mkimage 16M)")
later detach "$first"
second=$(attach --block-size 4096 "$(mkimage 16M)")
later detach "$second"
dmsetup create swapped --table "0 32768 linear $first 0"
later dmsetup remove --retry swapped
udev_settle
device=$(attach /dev/mapper/swapped)
is "a disk of sectors of 512: direct" "$(dio "$device")" 1
put "$WORK/noise" 1 4 "$device" oflag=direct
sync "$device"
# The second one gets the same data.
dd if="$first" of="$second" bs=1M status=none conv=fsync
dmsetup reload swapped --table "0 32768 linear $second 0"
dmsetup suspend swapped
dmsetup resume swapped
check "many writes of 512 bytes at once" \
	fio --name=many --filename="$device" --rw=write:7680 --bs=512 \
	--size=256k --offset=6M --ioengine=libaio --iodepth=16 \
	--iodepth_batch=16 --direct=1 --verify=crc32c \
	--verify_state_save=0 --output=/dev/null
check "a write of 512 bytes" \
	dd if="$WORK/noise" of="$device" bs=512 seek=16385 count=1 \
	oflag=direct conv=notrunc status=none
check "a read of 512 bytes" \
	cmp -n 512 "$WORK/noise" \
	<(dd if="$device" bs=512 skip=16385 count=1 iflag=direct status=none)
is "a disk of other sectors: direct" "$(dio "$device")" 0
matches "a disk of other sectors: because" "$(attr "$device" loop/dio_reason)" \
	"*refuses direct I/O*"
check "the rest is as it was" \
	cmp -n $((4 << 20)) "$WORK/noise" \
	<(dd if="$device" bs=1M skip=1 count=4 iflag=direct status=none)
detach "$device"
