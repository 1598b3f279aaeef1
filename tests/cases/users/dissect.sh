#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: systemd-dissect looks into an image, mounts it, attaches it and
#   detaches it.
# modes: drop-in in-tree
# machines: stable-drop-in stable-in-tree
# init: systemd
# long: yes
. tests/lib/users.sh

tree "$WORK/system"
image=$(os_image "$WORK/system")
sum=$(sum_of "$WORK/system/usr/lib/noise")

matches "what it says of the image" "$(systemd-dissect --no-pager "$image")" \
	"*A small system*rw*root*ext4*"
matches "list" "$(systemd-dissect --list "$image")" "*usr/lib/noise*"
systemd-dissect --copy-from "$image" /usr/lib/noise "$WORK/copy"
is "a file copied from it" "$(sum_of "$WORK/copy")" "$sum"
systemd-dissect --copy-to "$image" "$WORK/copy" /usr/lib/copied
gone "$image"

later systemd-dissect --umount "$WORK/mnt"
check "mount" systemd-dissect --mount --mkdir "$image" "$WORK/mnt"
device=$(device_of "$image")
ours "$device"
is "a file in it" "$(sum_of "$WORK/mnt/usr/lib/noise")" "$sum"
is "the file copied to it" "$(sum_of "$WORK/mnt/usr/lib/copied")" "$sum"
touch "$WORK/mnt/written"
check "umount" systemd-dissect --umount --rmdir "$WORK/mnt"
later_commands=()
gone "$image"
clean_image "$image"

device=$(systemd-dissect --attach "$image")
ours "$device"
udev_settle
check "its partition is there" test -b "${device}p1"
is "what is on it" "$(blkid -p -s TYPE -o value "${device}p1")" ext4
check "detach" systemd-dissect --detach "$device"
gone "$image"

is "--with" "$(systemd-dissect --with "$image" ls written)" written
gone "$image"
