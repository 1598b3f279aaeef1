#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: Reads of holes, which are done at once, end while a write that was
#   submitted with them waits in the file system for its disk.
# modes: side-by-side
# machines: stable-side-by-side lts-side-by-side
. tests/lib/guard.sh
programs loopdev together

said() {
	grep -qx "$1" "$WORK/said"
}

set_mapping 0
for fs in ext4 xfs; do
	begin_fs "$fs"
	later dmsetup resume below
	truncate -s 16M "$MNT/image"
	# To allocate a block, the file system has to read what is free.
	unmount "$MNT"
	mount -t "$fs" /dev/mapper/below "$MNT"
	dev=$(attach "$MNT/image")
	dd if="$dev" of=/dev/null bs=1M iflag=direct status=none
	udev_settle
	dmsetup suspend --noflush --nolockfs below
	"$WORK/bin/together" "$dev" >"$WORK/said" &
	together=$!
	wait_until 30 said reads
	! said write || fail "$fs: the write didn't wait"
	echo "ok: $fs: the reads end while the write waits"
	dmsetup resume below
	wait "$together" || fail "$fs: the write"
	said write || fail "$fs: the write"
	detach "$dev"
	end_fs
done
