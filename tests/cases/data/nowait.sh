#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: A caller that asks not to wait (RWF_NOWAIT, io_uring) gets right data
#   or EAGAIN and is never put to sleep: however slow the image's disk, with the
#   image sparse or full, direct or buffered.
# modes: side-by-side
# timeout: 400
. tests/lib/case.sh
programs loopdev nowait pattern

# Drop the pages that udev has read: the kernel refuses a write that may not
# wait where the device's page cache has pages.
uncached() {
	udev_settle
	blockdev --flushbufs "$1"
}

# On PREEMPT_RT a waiter for a spinlock sleeps, so a few sleeps are no fault. A
# driver that waited for the disk would sleep in every submission.
most=0
[[ $(uname -v) != *PREEMPT_RT* ]] || most='?'

disk=$(the_disk 1)
size=$((400 * 2048))
dmsetup create slow --table "0 $size delay $disk 0 5"
later dm_remove slow
make_fs ext4 /dev/mapper/slow
mount_at /dev/mapper/slow "$WORK/slow"
pattern write -q "$WORK/slow/full" 16M
for kind in full sparse; do
	for how in direct buffered; do
		mkimage 16M "$WORK/slow/sparse" >/dev/null
		dev=$(loop_attach "$how" -b 4096 "$WORK/slow/$kind")
		echo "$kind $how"
		uncached "$dev"
		nowait rwf "$dev" "$(more 150)"
		for depth in 8 256; do
			uncached "$dev"
			out=$(nowait ring "$dev" "$(more 1000)" "$depth")
			echo "io_uring: $out"
			if ! in_tree; then
				matches "no submission sleeps" "$out" \
					"* slept=$most *"
				matches "io_uring needs no helper threads" \
					"$out" "* helpers=0"
			fi
		done
		loopdev detach "$dev"
	done
done
