#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: The disk can't read where the image's blocks are when the driver looks
#   them up. When it can again, all of the image is mapped, within the same
#   epoch.
# modes: side-by-side
# machines: stable-side-by-side
# timeout: 180
. tests/lib/guard.sh
programs pattern

# The extents of a file that is written in turn with another one aren't in its
# inode, but in blocks of their own.
scattered() {
	local block

	for block in $(seq 0 64 8191); do
		dd if=/dev/urandom of="$1" bs=4k count=32 seek="$block" \
			conv=notrunc oflag=direct status=none
		dd if=/dev/urandom of="$1-beside" bs=4k count=32 \
			seek="$block" conv=notrunc oflag=direct status=none
	done
}

# disk_reads YES|NO - can the disk below be read? It can be written.
disk_reads() {
	local table=$WORK/table

	[ -e "$table" ] || dmsetup table below >"$table"
	if [ "$1" = yes ]; then
		dmsetup reload below "$table"
	else
		awk '{ print $1, $2, "flakey", $4, $5, 0, 600, 1, "error_reads" }' \
			"$table" | dmsetup reload below
	fi
	dmsetup suspend --nolockfs below
	dmsetup resume below
}

begin_fs ext4
scattered "$MNT/image"
# The journal would keep those blocks in memory
unmount "$MNT"
mount_at /dev/mapper/below "$MNT"
set_mapping 0
dev=$(attach "$MNT/image")
udev_settle
drop_caches
drop_caches
disk_reads no
later disk_reads yes
echo 1 >"/sys/block/${dev#/dev/}/loop/mapping"
wait_until 20 mapped "$dev"
sleep 2
is "mapped while the disk can't be read" "$(loop_stat "$dev" mapped_bytes)" 0
begun=$(begun "$dev")
disk_reads yes
wait_mapped "$dev" 16
is "epochs begun" "$(begun "$dev")" "$begun"
detach "$dev"
end_fs
