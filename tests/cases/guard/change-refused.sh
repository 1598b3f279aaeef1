#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: A file system may begin to refuse direct I/O while LOOP_CHANGE_FD
#   replaces the image. A refused bio is done before the old image is gone: it
#   may be a part of another one, from the image's own reserve.
# modes: side-by-side
# machines: stable-side-by-side
# cpus: 2
# timeout: 400
# module: debug
. tests/lib/guard.sh
load_debug
programs loopdev pattern

# full DEVICE - a map of 1 MiB
full() {
	[ "$(loop_stat "$1" mapped_extents)" -ge $((16 << 10)) ]
}

# gives_up - a work waits for mapped I/O, to go on with buffered I/O
gives_up() {
	grep -qs floop_direct_give_up /proc/[0-9]*/stack
}

# Two disks with the same data, with sectors of 512 and of 4096 bytes. The
# second one, in place of the first, refuses what the first one takes.
first=$(attach "$(mkimage 220M)")
later detach "$first"
second=$(attach --block-size 4096 "$(mkimage 220M)")
later detach "$second"
dmsetup create below --table "0 $(sectors "$first") linear $first 0"
later dm_remove below
carve "$(the_disk 1)" elsewhere 0 300
udev_settle

memory=/sys/module/$MODULE/parameters/map_memory
later dd of="$memory" status=none <<<"$(<"$memory")"
begin_fs ext4 -b 4096
below=$MNT
on_disk ext4 /dev/mapper/elsewhere
written "$MNT/image" 160M 2

# An image of so many pieces that the map is full before all are in it. The
# first lookup waits for a read from the middle, and the next ones go on there:
# what is before the middle stays unmapped.
echo 1 >"$memory"
pattern write -q -s 1 -b 4k -k 8k "$below/image" 160M
truncate -s 160M "$below/image"
window 20000 FILL
dev=$(attach --read-only "$below/image")
wait_until 20 in_window FILL
dd if="$dev" of=/dev/null bs=4k skip=$((64 << 8)) count=1 iflag=direct \
	status=none
window 0
wait_until 60 full "$dev"

sync
dd if="$first" of="$second" bs=1M iflag=direct oflag=direct status=none
dmsetup reload below --table "0 $(sectors "$second") linear $second 0"
dmsetup suspend below
dmsetup resume below
udev_settle

# The front is refused, the rest is mapped and hangs. The worker that is refused
# has to wait for the reader's CPU until the rest is on its way.
workers=/sys/devices/virtual/workqueue/cpumask
later dd of="$workers" status=none <<<"$(<"$workers")"
echo 1 >"$workers"
window 20000 END
taskset -c 0 chrt --fifo 1 dd if="$dev" of="$WORK/read" bs=11776 \
	skip=$(((64 << 20) - 7680)) count=1 iflag=direct,skip_bytes \
	status=none &
reader=$!
wait_until 20 in_window END
wait_until 20 gives_up
loopdev change "$dev" "$MNT/image" &
changer=$!
wait_until 20 waits_in "$changer" flush_work
dmsetup suspend --nolockfs elsewhere
later dmsetup resume elsewhere
window 0
wait "$changer" || fail "LOOP_CHANGE_FD"
dmsetup resume elsewhere
wait "$reader" || fail "the read failed"
check "what it read" cmp -n 11776 -i 0:$(((64 << 20) - 7680)) "$WORK/read" \
	"$below/image"
check "the other image" pattern check -d -q -s 2 "$dev" 160M
detach "$dev"
unmount "$MNT"
MNT=$below
end_fs
