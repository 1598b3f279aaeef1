#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: A partition scan makes devices of GPT and MBR partitions, and they
#   carry file systems.
# machines: lts-side-by-side stable-drop-in
. tests/lib/case.sh

# scanned DEVICE - udev reads the table once more when a writer closes the disk:
# wait for that
scanned() {
	udev_settle
	wait_until 20 test -e "${1}p1"
}

image=$(mkimage 128M)
sfdisk -q "$image" <<-END
	label: gpt
	size=16M, type=uefi
	size=32M
	size=64M
END
device=$(attach --partscan "$image")
scanned "$device"
is "partitions" "$(glob "${device}p?")" "${device}p1 ${device}p2 ${device}p3"
is "a size" "$(cat "/sys/block/${device#/dev/}/${device#/dev/}p2/size")" 65536
make_fs vfat "${device}p1"
make_fs ext4 "${device}p2"
mkdir "$WORK/mnt"
for n in 1 2; do
	mount "${device}p$n" "$WORK/mnt"
	cp /etc/passwd "$WORK/mnt/"
	umount "$WORK/mnt"
	check "fsck of partition $n" fsck -n "${device}p$n"
done
refused "a busy partition keeps the table" "*" \
	sh -c "exec 9<'${device}p1'; blockdev --rereadpt '$device'"
detach "$device"
is "no partitions are left" "$(glob "${device}p?")" ""

device=$(attach "$image")
is "without the flag there are none" "$(glob "${device}p?")" ""
refused "nor does it look for any" "*Invalid argument*" \
	blockdev --rereadpt "$device"
udev_settle
check "partx adds them" partx -a "$device"
is "all three" "$(glob "${device}p?")" "${device}p1 ${device}p2 ${device}p3"
# udev opens each of them, and an open partition can't be removed
udev_settle
check "partx removes them" partx -d "$device"
detach "$device"

# Data written through the partitions is in the file, read as a whole.
device=$(attach --read-only --partscan "$image")
scanned "$device"
mount -o ro "${device}p2" "$WORK/mnt"
check "the file is there" cmp /etc/passwd "$WORK/mnt/passwd"
umount "$WORK/mnt"
detach "$device"

small=$(mkimage 8M)
printf 'label: dos\n2048,4096\n,,E\n,1024\n' | sfdisk -q --force "$small"
device=$(attach --partscan "$small")
scanned "$device"
is "MBR: primary, extended and logical" "$(glob "${device}p?")" \
	"${device}p1 ${device}p2 ${device}p5"
detach "$device"
