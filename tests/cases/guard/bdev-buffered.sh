#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: A disk that serves as the image and begins to refuse direct I/O is not
#   mapped any more: buffered writes beside mapped ones to the same page would
#   lose data.
# modes: side-by-side
# machines: stable-side-by-side lts-side-by-side
. tests/lib/guard.sh
programs loopdev pattern

# Two disks with the same data, with sectors of 512 and of 4096 bytes. The
# second one, in place of the first, refuses what the first one takes.
first=$(attach "$(mkimage 16M)")
later detach "$first"
second=$(attach --block-size 4096 "$(mkimage 16M)")
later detach "$second"
pattern write -q -s 1 "$first" 16M
dd if="$first" of="$second" bs=1M iflag=direct oflag=direct status=none
dmsetup create below --table "0 $(sectors "$first") linear $first 0"
later dm_remove below
udev_settle
disk=/dev/mapper/below
dev=$(attach "$disk")
wait_mapped "$dev"
dmsetup reload below --table "0 $(sectors "$second") linear $second 0"
dmsetup suspend below
dmsetup resume below
udev_settle

# With a page of the disk in memory, I/O takes the file path
dd if="$disk" of=/dev/null bs=4k count=1 status=none
check "a write that the disk refuses" \
	pattern write -d -q -b 512 -s 2 -o 1M "$dev" 512
matches "direct" "$(attr "$dev" loop/dio_reason)" "*refuses direct I/O*"
matches "mapped" "$(attr "$dev" loop/mapped_reason)" "*not direct*"
sleep 2
goes_through_file "afterwards" "$dev"
check "what was written" pattern check -q -b 512 -s 2 -o 1M "$dev" 512
check "what was there" pattern check -q -s 1 "$dev" 1M
detach "$dev"
