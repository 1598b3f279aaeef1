#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: With floop's udev rules, devices and partitions get links in
#   /dev/disk/by-uuid, by-label, by-partuuid and by-partlabel, and lose them
#   when they are detached.
# modes: side-by-side
# machines: stable-side-by-side
# timeout: 240
. tests/lib/cli.sh
watch_devices

# The test machine has them where `make install` would put them.
if udevadm verify --help >/dev/null 2>&1; then
	check "udev finds nothing wrong with them" \
		udevadm verify --no-style cli/60-floop.rules
fi

image=$(mkimage 96M)
echo \
	'size=32MiB, type=linux, name="FLOOPPART", uuid=0F100B00-0000-4000-8000-000000000001' |
	sfdisk -q --label gpt "$image"
dev=$("$FLOOP" attach --partscan "$image")
links=/dev/disk
is "by-partuuid" \
	"$(realpath $links/by-partuuid/0f100b00-0000-4000-8000-000000000001)" \
	"${dev}p1"
is "by-partlabel" "$(realpath $links/by-partlabel/FLOOPPART)" "${dev}p1"
# While udev looks at a device it doesn't watch it, and would miss the end of
# mkfs after its beginning. It doesn't look at one that is locked.
udev_settle
check "a file system" udevadm lock --device="${dev}p1" mkfs.ext4 -q -F \
	-U 0f100b00-0000-4000-8000-000000000002 -L FLOOPLABEL "${dev}p1"
uuid=$links/by-uuid/0f100b00-0000-4000-8000-000000000002

# written_and_linked - udev hears of a write by inotify, which settling doesn't
# wait for. It may miss one (it did once), but not each of many.
written_and_linked() {
	[ -e "$uuid" ] && return
	: >>"${dev}p1"
	udev_settle
	[ -e "$uuid" ]
}
wait_until 60 written_and_linked
is "by-uuid, made later" "$(realpath "$uuid")" "${dev}p1"
mount_at LABEL=FLOOPLABEL "$WORK/mnt"
unmount "$WORK/mnt"
check "detach" "$FLOOP" detach "$dev"
wait_until 20 test ! -e "$uuid"
udev_settle
is "systemd's view of a device without image" \
	"$(udevadm info --query=property --property=SYSTEMD_READY \
	--value "$dev")" 0
