#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: Any single memory allocation in any ioctl or I/O may fail, of a mapped
#   image or of one that isn't, and any while the module is loaded. I/O errors
#   are injected below and on the device. There are errors and nothing worse.
# modes: side-by-side
# debug: only
# timeout: 600
. tests/lib/case.sh
programs loopdev failnth ackio

debug=/sys/kernel/debug
[ -d "$debug/failslab" ] || mount -t debugfs debugfs "$debug"
[ -d "$debug/failslab" ] || fail "this kernel has no fault injection"
on_disk ext4
mkimage 4M "$MNT/image" >/dev/null

# One after the other, each allocation of the process that asks for it
for which in failslab fail_page_alloc; do
	echo N >"$debug/$which/ignore-gfp-wait"
	echo 0 >"$debug/$which/verbose"
done
[ ! -e "$debug/fail_page_alloc/min-order" ] ||
	echo 0 >"$debug/fail_page_alloc/min-order"
later set_mapping 0
failing() {
	echo "$1, mapping=$2"
	set_mapping "$2"
	failnth "$1"
}
failing "$MNT/image" 0
failing "$MNT/image" 1
# An image on no disk has its workqueues from the beginning.
failing "$(mkimage 4M)" 0
set_mapping 0
unload "$MODULE"
later insert_missing
failnth -l "$MODULE_FILE" "names=$PREFIX"
wait_until 30 test -e "$CTL"
set_mapping 0
udev_settle

# I/O errors, for all tasks
for how in direct buffered; do
	dev=$(loop_attach "$how" "$MNT/image")
	dd if=/dev/zero of="$dev" bs=1M count=4 oflag=direct \
		conv=fsync status=none
	rm -f "$WORK/state"
	ackio run "$dev" 100 1 "$WORK/state"

	# On the device itself, then on the disk below: after those the file
	# system may be read-only
	for target in "/sys/block/${dev#/dev/}" \
		"/sys/block/$(basename "$(the_disk 1)")"; do
		echo 5 >"$debug/fail_make_request/probability"
		echo 60 >"$debug/fail_make_request/times"
		echo 1 >"$debug/fail_make_request/interval"
		echo 0 >"$debug/fail_make_request/verbose"
		echo 1 >"$target/make-it-fail"
		status=0
		out=$(ackio run "$dev" 300 2 "$WORK/state") || status=$?
		echo 0 >"$target/make-it-fail"
		echo 0 >"$debug/fail_make_request/probability"
		echo "$how, errors from $target: $out"
		is "$how: only EIO" "$status" 0
	done
	loopdev detach "$dev"
	unmount "$MNT"
	fsck.ext4 -fp "$(the_disk 1)" >/dev/null || true
	mount "$(the_disk 1)" "$MNT"
	dev=$(loop_attach "$how" "$MNT/image")
	check "$how: all versions are right" ackio check "$dev" "$WORK/state"
	loopdev detach "$dev"
done
