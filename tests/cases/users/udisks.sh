#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: udisksctl sets up an image, mounts its partition and deletes the
#   device.
# modes: drop-in in-tree
# machines: stable-drop-in stable-in-tree
# init: systemd
# long: yes
. tests/lib/users.sh

tree "$WORK/system"
image=$(os_image "$WORK/system")

# ask COMMAND [OPTION]... - of udisks
ask() {
	udisksctl "$1" --no-user-interaction "${@:2}"
}

later systemctl stop udisks2.service
out=$(ask loop-setup --file "$image")
matches "loop-setup" "$out" "Mapped file $image as /dev/loop[0-9]*."
device=${out##* }
device=${device%.}
ours "$device"
is "its image" "$(device_of "$image")" "$device"
udev_settle
part=${device}p1
wait_until 20 udisksctl info --block-device "$part" >/dev/null
out=$(ask mount --block-device "$part")
matches "mount" "$out" "Mounted $part at *"
where=${out##* at }
where=${where%.}
is "what is in it" "$(sum_of "$where/usr/lib/noise")" \
	"$(sum_of "$WORK/system/usr/lib/noise")"
touch "$where/written"
matches "unmount" "$(ask unmount --block-device "$part")" "Unmounted *"
check "loop-delete" ask loop-delete --block-device "$device"
gone "$image"
clean_image "$image"

# Deleted while it is mounted: it is gone when it is unmounted.
out=$(ask loop-setup --read-only --file "$image")
device=${out##* }
device=${device%.}
is "read-only" "$(attr "$device" ro)" 1
udev_settle
mount -o ro "${device}p1" /mnt
check "loop-delete" ask loop-delete --block-device "$device"
is "it stays while it is mounted" "$(device_of "$image")" "$device"
umount /mnt
gone "$image"
