#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: The last close of a device that is to be detached can come while
#   mapping is being turned off and on: between the stop of the guard and its
#   start.
# modes: side-by-side
# machines: stable-side-by-side
# cpus: 2
# module: debug
. tests/lib/guard.sh
load_debug
programs loopdev pattern

for fs in $(file_systems ext4); do
	begin_fs "$fs"
	written "$MNT/image" 4M 1
	for mapping in 0 1; do
		dev=$(attach "$MNT/image")
		wait_mapped "$dev"
		exec 8<"$dev"
		loopdev autoclear "$dev"
		udev_settle
		window 2000 REMAP
		echo "$mapping" >"/sys/block/${dev#/dev/}/loop/mapping" 8<&- &
		switcher=$!
		wait_until 20 in_window REMAP
		exec 8<&-
		wait "$switcher" || fail "$fs: mapping was not set to $mapping"
		wait_until 20 unbound "$dev"
		window 0
		echo "ok: $fs: detached while mapping was set to $mapping"
	done
	dev=$(attach "$MNT/image")
	wait_mapped "$dev"
	check "$fs: attached again" pattern check -d -q -s 1 "$dev" 4M
	detach "$dev"
	end_fs
done
