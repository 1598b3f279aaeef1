#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: An image on each file system that is read-only, by its kind or as
#   Debian can make it, reads through the device as in the file. docs/hosts.md
#   lists which are direct.
# modes: side-by-side drop-in
# machines: stable-drop-in
# timeout: 600
# debug: no
# coverage: no
# long: yes
. tests/lib/hosts.sh

noise "$WORK/noise" 1
# Text, which the compressing file systems compress
seq 1 200000 >>"$WORK/noise"
truncate -s 2M "$WORK/noise"
mkdir "$WORK/from"
cp "$WORK/noise" "$WORK/from/image"

# made COMMAND... - a file system of $WORK/from in $WORK/made, on $DISK
made() {
	rm -f "$WORK/made"
	"$@" && dd if="$WORK/made" of="$DISK" bs=64k conv=fsync status=none
}

# read_only HOST TYPE CONFIG-OPTION MOUNT-OPTIONS MAKE...
read_only() {
	local host=$1 type=$2 bytes
	kernel_has "$host" "$type" "$3" || return 0
	for bytes in $sector_sizes; do
		ram_disk host "$bytes" 512
		if mounts_on_disk "$host" "$bytes" "$type" "ro,$4" \
			made "${@:5}"; then
			# Some have short names in capitals
			read_only_host "$host" "$bytes" "$(glob "$MNT/[iI]*")"
			unmount "$MNT"
		fi
		end_disk host
	done
}

to=$WORK/made
from=$WORK/from
read_only squashfs squashfs SQUASHFS defaults \
	mksquashfs "$from" "$to" -quiet -no-progress
read_only erofs erofs EROFS_FS defaults mkfs.erofs --quiet "$to" "$from"
read_only "erofs, compressed" erofs EROFS_FS defaults \
	mkfs.erofs --quiet -zlz4 "$to" "$from"
read_only iso9660 iso9660 ISO9660_FS defaults \
	genisoimage -quiet -o "$to" "$from"
read_only romfs romfs ROMFS_FS defaults genromfs -f "$to" -d "$from"
read_only hfs hfs HFS_FS defaults genisoimage -quiet -hfs -o "$to" "$from"
read_only hfsplus hfsplus HFSPLUS_FS defaults xorriso -report_about SORRY \
	-as mkisofs -quiet -hfsplus -o "$to" "$from"
end_hosts
