#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: udev links our devices by sequence number and by their content, and
#   removes the links again.
# modes: drop-in in-tree
. tests/lib/case.sh

# links DEVICE DIRECTORY - those below /dev/disk/DIRECTORY that lead to it
links() {
	find "/dev/disk/$2" -lname "*/${1#/dev/}" -printf '%f\n' 2>/dev/null |
		sort | xargs
}

property() {
	udevadm info -q property --property="$2" --value "$1"
}

image=$(mkimage 32M)
printf 'label: gpt\nsize=16M, name=first\n' | sfdisk -q "$image"
device=$(attach --partscan "$image")
udev_settle
make_fs ext4 "${device}p1" -L written
detach "$device"
device=$(attach --partscan "$image")
udev_settle

sequence=$(attr "$device" diskseq)
is "its sequence number, udev's" "$(property "$device" DISKSEQ)" "$sequence"
is "a link by it" "$(links "$device" by-diskseq)" "$sequence"
is "a partition's label" "$(property "${device}p1" ID_FS_LABEL)" written
is "a link by it" "$(links "${device}p1" by-label)" written
is "a link by the partition's name" "$(links "${device}p1" by-partlabel)" first
detach "$device"
udev_settle
is "no link is left by label" "$(links "${device}p1" by-label)" ""
[ "$(attr "$device" diskseq)" -gt "$sequence" ] ||
	fail "the sequence number is $(attr "$device" diskseq) after $sequence"

device=$(attach --device "$device" "$(mkimage 8M)")
udev_settle
is "attached again: a link by the new number" "$(links "$device" by-diskseq)" \
	"$(attr "$device" diskseq)"
is "and none by what is not on it" \
	"$(links "$device" by-label)$(links "$device" by-uuid)" ""
detach "$device"
