#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: With the module, I/O is direct wherever the image allows it. --direct
#   on fails where it can't be, --direct off turns it off, and status gives the
#   reason.
# modes: side-by-side drop-in
# machines: lts-side-by-side
# timeout: 240
. tests/lib/cli.sh

# A disk with sectors of 4096 bytes, with a file system on it for the images.
disk=$(attach --block-size 4096 "$(mkimage 256M)")
later detach "$disk"
on_disk ext4 "$disk"

# whether IMAGE [ARG]... - attach it; is it direct, with which sectors, and why
# not?
whether() {
	local image=$1 dev
	shift
	dev=$("$FLOOP" attach "$@" "$image")
	"$FLOOP" status --json "$dev" >"$WORK/status"
	for field in direct sector_size direct_reason; do
		fields $field <"$WORK/status"
	done | xargs -d '\n'
	udev_settle
	"$FLOOP" detach "$dev" 2>/dev/null
}

blank=$(mkimage 16M "$MNT/blank")
matches "a blank image" "$(whether "$blank")" \
	"false 512 *nothing known to be made for them*"
is "--direct on" "$(whether "$blank" --direct on)" "true 4096 null"
matches "--direct off" "$(whether "$blank" --direct off)" \
	"false 512 turned off by LOOP_SET_DIRECT_IO (*"
matches "offset" "$(whether "$blank" --offset 512)" \
	"false 512 *offset 512 is not a multiple of 4096*"
matches "sector size" "$(whether "$blank" --sector-size 512)" \
	"false 512 * 4096 *"

gpt=$(mkimage 16M "$MNT/gpt")
echo 'type=linux' | sfdisk -q --label gpt "$gpt"
matches "content" "$(whether "$gpt")" \
	"false 512 *holds a GPT made for 512-byte sectors*"
odd=$(mkimage $(((16 << 20) + 512)) "$MNT/odd")
mkfs.ext4 -q -b 4096 "$odd"
matches "size" "$(whether "$odd")" "false 512 *last 512 bytes would be lost*"

ends_with 7 "floop: $blank: no direct I/O: *offset 512*; --direct auto attaches it buffered" \
	attach --direct on --offset 512 "$blank"
ends_with 7 "floop: $gpt: no direct I/O: *GPT*" attach --direct on "$gpt"
is "nothing is attached but the disk" "$("$FLOOP" list | wc -l)" 2
is "unless the sectors are asked for" \
	"$(whether "$gpt" --direct on --sector-size 4096)" \
	"true 4096 null"

# On a partition, a file system that doesn't report STATX_DIOALIGN
whole=$(attach --partscan --block-size 4096 "$(mkimage 64M)")
later detach "$whole"
echo , | sfdisk -q "$whole"
udev_settle
wait_until 20 test -b "${whole}p1"
mkfs.vfat -S 4096 "${whole}p1" >/dev/null
mount_at "${whole}p1" "$WORK/vfat"
is "on a partition" \
	"$(whether "$(mkimage 16M "$WORK/vfat/image")" --direct on)" \
	"true 4096 null"
