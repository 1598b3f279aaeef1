#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: Sectors have 512 bytes, unless the content is known to have been made
#   for the sectors that direct I/O to the image takes, or direct I/O is asked
#   for. Data written in sectors of one size is found again, and a blank image
#   stays at 512. An image with blocks that xfs shares keeps the disk's own
#   sectors.
# modes: side-by-side drop-in
# machines: stable-side-by-side
. tests/lib/case.sh

# has DEVICE SECTOR-SIZE DIRECT REASON - and detach it
has() {
	is "$what: sectors" "$(attr "$1" queue/logical_block_size)" "$2"
	is "$what: direct" "$(dio "$1")" "$3"
	matches "$what: because" "$(attr "$1" loop/dio_reason)" "$4"
	is "$what: loop/driver" "$(attr "$1" loop/driver)" floop
	detach "$1"
}

# new [SIZE] - a blank image on the mounted disk
new() {
	rm -f "$MNT/image"
	mkimage "${1-8M}" "$MNT/image"
}

# A file system whose disk has sectors of 4096 bytes.
disk=$(attach --block-size 4096 "$(mkimage 256M)")
later detach "$disk"
on_disk ext4 "$disk"

what="an empty image"
image=$(new)
has "$(attach "$image")" 512 0 "the block size *4096*"
what="direct I/O is asked for"
has "$(attach --direct "$image")" 4096 1 direct
what="the user's 512"
has "$(attach --block-size 512 "$image")" 512 0 "the block size *4096*"
what="the user's 1024"
has "$(attach --block-size 1024 "$image")" 1024 0 "the block size *4096*"
what="the user's 4096"
has "$(attach --block-size 4096 "$image")" 4096 1 direct
what="an offset of 512"
has "$(attach --offset 512 "$image")" 512 0 \
	"offset 512 is not a multiple of 4096"
what="an offset of 8192"
has "$(attach --offset 8192 --direct "$image")" 4096 1 direct
what="turned off"
device=$(attach --direct "$image")
loopdev direct "$device" 0
has "$device" 4096 0 "turned off by LOOP_SET_DIRECT_IO*"
what="turned off and on"
device=$(attach --direct "$image")
loopdev direct "$device" 0
loopdev direct "$device" 1
has "$device" 4096 1 direct
what="asked for when it is direct already"
image=$(new)
mkswap -q "$image"
device=$(attach "$image")
loopdev direct "$device" 1
loopdev set -o 8192 "$device"
has "$device" 4096 1 direct
what="a block size that can't be"
image=$(new)
mkswap -q "$image"
device=$(attach "$image")
refused "$what" "*" loopdev sector "$device" 3000
# It doesn't count as the user's choice, which would stay
loopdev set -o 512 "$device"
has "$device" 512 0 "offset 512 is not a multiple of 4096"
what="asked for and not possible"
image=$(new)
has "$(attach --offset 512 --direct "$image")" 512 0 \
	"offset 512 is not a multiple of 4096"
matches "it is said in the log" "$(dmesg | tail -n 5)" \
	"*no direct I/O: offset 512 is not a multiple of 4096*"

what="GPT of sectors of 512"
image=$(new)
printf 'label: gpt\nsize=2M\n' | sfdisk -q "$image"
device=$(attach --partscan "$image")
udev_settle
is "$what: its partition" "$(glob "${device}p*")" "${device}p1"
has "$device" 512 0 "*"
what="GPT of sectors of 4096"
device=$(attach --block-size 4096 "$(new)")
printf 'label: gpt\nsize=2M\n' | sfdisk -q "$device"
detach "$device"
device=$(attach --partscan "$MNT/image")
udev_settle
is "$what: its partition" "$(glob "${device}p*")" "${device}p1"
has "$device" 4096 1 direct
what="MBR"
image=$(new)
printf 'label: dos\n2048\n' | sfdisk -q "$image"
has "$(attach "$image")" 512 0 "*"
# The rest of parted's code after grub-install, where FAT has its parameters.
what="MBR with boot code"
printf '%b' '\xeb\x63\x90\x10\x8e\xd0\xbc\x00\xb0\xb8\x00\x00\x8e\xd8\x8e\xc0\xfb\xbe\x00\x7c\xbf\x00\x06\xb9\x00\x02\xf3\xa4\xea\x21\x06\x00\x00\xbe' |
	dd of="$image" conv=notrunc status=none
has "$(attach "$image")" 512 0 "*"
what="FAT of sectors of 512"
image=$(new)
mkfs.vfat "$image" >/dev/null
has "$(attach "$image")" 512 0 "*"
what="FAT of sectors of 4096"
image=$(new 64M)
mkfs.vfat -S 4096 "$image" >/dev/null
has "$(attach "$image")" 4096 1 direct
what="ext4 of blocks of 1024"
image=$(new)
mkfs.ext4 -q -b 1024 "$image"
has "$(attach "$image")" 512 0 "*"
what="ext4 of blocks of 4096"
image=$(new)
mkfs.ext4 -q -b 4096 "$image"
device=$(attach "$image")
mount_at "$device" "$WORK/inner"
umount "$WORK/inner"
has "$device" 4096 1 direct
what="ext4 of blocks of 4096, and a part of one"
truncate -s +512 "$image"
has "$(attach "$image")" 512 0 "*"
what="xfs of sectors of 512"
image=$(new 400M)
mkfs.xfs -q -s size=512 "$image"
device=$(attach "$image")
mount_at "$device" "$WORK/inner"
umount "$WORK/inner"
has "$device" 512 0 "*"
what="ISO 9660"
image=$(new)
printf 'CD001' | dd of="$image" bs=1 seek=32769 conv=notrunc status=none
has "$(attach "$image")" 512 0 "*"

# passes_on WHAT OFFSET TEXT - content that passes on the device's sector size
passes_on() {
	what=$1
	image=$(new)
	printf '%b' "$3" |
		dd of="$image" bs=1 seek="$2" conv=notrunc status=none
	has "$(attach "$image")" 512 0 "the block size *4096*"
}

passes_on "LUKS" 0 'LUKS\xba\xbe\x00\x02'
passes_on "LVM" 512 'LABELONE'
passes_on "md, at the beginning" 4096 '\xfc\x4e\x2b\xa9'
what="swap"
image=$(new)
mkswap -q "$image"
has "$(attach "$image")" 4096 1 direct
what="btrfs"
image=$(new 128M)
mkfs.btrfs -q -s 4096 "$image"
device=$(attach "$image")
mount_at "$device" "$WORK/inner"
umount "$WORK/inner"
has "$device" 4096 1 direct

# A disk of sectors of 512 bytes; xfs asks for 4096 once a file has shared some.
on_disk xfs "" -m reflink=1
what="an image on xfs"
image=$(new)
dd if=/dev/urandom of="$image" bs=1M count=8 conv=notrunc status=none
has "$(attach "$image")" 512 1 direct
what="a clone on xfs"
cp --reflink=always "$image" "$MNT/clone"
has "$(attach "$MNT/clone")" 512 1 direct
what="what was cloned"
device=$(attach "$image")
noise "$WORK/noise" 1
check "$what: a write of 512 bytes" \
	dd if="$WORK/noise" of="$device" bs=512 seek=3 count=1 oflag=direct \
	conv=notrunc status=none
check "$what: read" \
	cmp -n 512 "$WORK/noise" \
	<(dd if="$device" bs=512 skip=3 count=1 iflag=direct status=none)
has "$device" 512 1 direct
if cmp -s -n 512 "$WORK/noise" \
	<(dd if="$MNT/clone" bs=512 skip=3 count=1 status=none); then
	fail "$what: the clone has it, too"
fi
what="with the clone removed"
rm "$MNT/clone"
sync
has "$(attach "$image")" 512 1 direct
