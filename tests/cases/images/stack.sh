#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: File systems on devices on files, eight levels deep, hold what was
#   written at the top.
# machines: stable-side-by-side
. tests/lib/images.sh

# A file system on the disk, a file on it, a device on that, one on the device;
# then again.
on_disk ext4
level=0
for fs in xfs:900M ext4:500M ext4:100M last:24M; do
	image=$(mkimage "${fs#*:}" "$MNT/image")
	for lower in "$image" device; do
		[ "$lower" = "$image" ] || lower=$device
		device=$(attach "$lower")
		later detach "$device"
		level=$((level + 1))
		echo "level $level: $device on $lower, direct: $(dio "$device")"
	done
	[ "$level" -lt 8 ] || break
	make_fs "${fs%:*}" "$device"
	MNT=$WORK/level-$level
	mount_at "$device" "$MNT"
done
passes_on "$device" "$image" 2
