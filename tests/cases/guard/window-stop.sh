#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: A file system may begin to refuse direct I/O while mapping is being
#   turned off. The guard is off only when the epoch that this breaks has been
#   drained, and nothing is lost.
# modes: side-by-side
# machines: stable-side-by-side
# cpus: 2
# module: debug
. tests/lib/guard.sh
load_debug
programs loopdev pattern

# Two disks with the same data, with sectors of 512 and of 4096 bytes. The
# second one, in place of the first, refuses what the first one takes.
first=$(attach "$(mkimage 64M)")
later detach "$first"
second=$(attach --block-size 4096 "$(mkimage 64M)")
later detach "$second"
dmsetup create below --table "0 $(sectors "$first") linear $first 0"
later dm_remove below
udev_settle

begin_fs ext4 -b 4096
written "$MNT/image" 4M 1
dev=$(attach "$MNT/image")
wait_mapped "$dev"
sync
dd if="$first" of="$second" bs=1M iflag=direct oflag=direct status=none
dmsetup reload below --table "0 $(sectors "$second") linear $second 0"
dmsetup suspend below
dmsetup resume below

window 20000 STOP DRAIN
echo 0 >"/sys/block/${dev#/dev/}/loop/mapping" &
switcher=$!
wait_until 20 in_window STOP
pattern write -d -q -b 512 -s 2 -o 1M "$dev" 512 &
writer=$!
wait_until 20 in_window DRAIN
window 20000 DRAIN
wait_until 20 waits_in "$switcher" floop_guard_stop
window 0
wait "$switcher" || fail "mapping was not turned off"
wait "$writer" || fail "the write failed"
matches "the file system" "$(attr "$dev" loop/dio_reason)" \
	"*refuses direct I/O*"
check "what was written" pattern check -q -b 512 -s 2 -o 1M "$dev" 512
check "what was there" pattern check -q -s 1 "$dev" 1M
detach "$dev"
end_fs
