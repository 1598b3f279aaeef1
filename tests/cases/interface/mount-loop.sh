#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: mount -o loop, with an offset and read-only, takes a device, and umount
#   gives it back.
# modes: drop-in in-tree
. tests/lib/case.sh

image=$(mkimage 32M)
mkfs.ext4 -q "$image"
mkdir "$WORK/mnt"
mount -o loop "$image" "$WORK/mnt"
later unmount "$WORK/mnt"
device=$(findmnt -n -o SOURCE "$WORK/mnt")
matches "mount -o loop takes a device" "$device" "/dev/loop[0-9]*"
is "that clears itself" "$(attr "$device" loop/autoclear)" 1
cp /etc/passwd "$WORK/mnt/file"
umount "$WORK/mnt"
wait_until 20 unbound "$device"
echo "ok: umount gives it back"

# The same file system further down in a larger file.
larger=$(mkimage 40M)
dd if="$image" of="$larger" bs=1M seek=4 conv=notrunc status=none
mount -o loop,ro,offset=4M,sizelimit=32M "$larger" "$WORK/mnt"
device=$(findmnt -n -o SOURCE "$WORK/mnt")
check "what was written is there" cmp /etc/passwd "$WORK/mnt/file"
is "read-only" "$(attr "$device" ro)" 1
is "the offset" "$(attr "$device" loop/offset)" 4194304
refused "writing" "*Read-only*" touch "$WORK/mnt/other"
umount "$WORK/mnt"
wait_until 20 unbound "$device"

# A second mount of the same image uses the same device.
mkdir "$WORK/mnt2"
mount -o loop "$image" "$WORK/mnt"
mount -o loop "$image" "$WORK/mnt2"
later unmount "$WORK/mnt2"
is "a second mount uses the same device" \
	"$(findmnt -n -o SOURCE "$WORK/mnt2")" \
	"$(findmnt -n -o SOURCE "$WORK/mnt")"
umount "$WORK/mnt"
check "the other goes on" cmp /etc/passwd "$WORK/mnt2/file"
umount "$WORK/mnt2"
is "fsck" "$(fsck.ext4 -fn "$image" >/dev/null 2>&1 && echo clean)" clean
