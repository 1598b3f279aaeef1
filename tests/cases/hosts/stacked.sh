#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: An image on tmpfs and ramfs, on overlayfs above several file systems
#   and on FUSE of several kinds, with passthrough and without, holds what its
#   device was given. docs/hosts.md lists which are direct.
# modes: side-by-side drop-in
# machines: stable-drop-in
# timeout: 900
# long: yes
# debug: no
. tests/lib/hosts.sh

programs passthrough
noise "$WORK/noise" 2

# in_memory TYPE
in_memory() {
	MNT=$WORK/$1
	mount_at "$1" "$MNT" -t "$1"
	host "$1" -
	unmount "$MNT"
}

# overlay HOST DISK BELOW - upper and work in that folder
overlay() {
	kernel_has "$1" overlay OVERLAY_FS || return 0
	mkdir "$3"/{lower,upper,work}
	MNT=$WORK/merged
	mount_at overlay "$MNT" -t overlay \
		-o "lowerdir=$3/lower,upperdir=$3/upper,workdir=$3/work"
	host "$1" "$2"
	unmount "$MNT"
}

# fuse_one HOST DISK BELOW OPTION... - it serves one file, which is made before
fuse_one() {
	local host=$1 disk=$2 below=$3/one
	mkimage 6M "$below" >/dev/null
	served "$below" "${@:4}"
	MNT=$WORK/fuse
	host "$host" "$disk"
	check "$host: and what is below" cmp "$below" "$WORK/model"
	unmount "$MNT"
	wait
	rm "$below"
}

mkdir "$WORK/fuse"
in_memory tmpfs
in_memory ramfs
mount_at tmpfs "$WORK/memory" -t tmpfs
overlay "overlayfs on tmpfs" - "$WORK/memory"

for bytes in $sector_sizes; do
	for fs in ext4 xfs btrfs; do
		ram_disk host "$bytes" 512
		make_fs "$fs" "$DISK"
		below=$WORK/below
		mount_at "$DISK" "$below"
		overlay "overlayfs on $fs" "$bytes" "$below"
		if [ "$fs" = ext4 ]; then
			fuse_one "FUSE" "$bytes" "$below"
			fuse_one "FUSE, FOPEN_DIRECT_IO" "$bytes" "$below" -d
			fuse_one "FUSE, passthrough" "$bytes" "$below" -p
			bindfs "$below" "$WORK/fuse"
			MNT=$WORK/fuse
			host "FUSE: bindfs" "$bytes"
			unmount "$MNT"
		fi
		unmount "$below"
		if [ "$fs" = ext4 ]; then
			fuse2fs "$DISK" "$WORK/fuse"
			MNT=$WORK/fuse
			host "FUSE: fuse2fs" "$bytes"
			unmount "$MNT"
		fi
		end_disk host
	done
done

# An image in the lower layer only, which is a read-only file system
mkdir "$WORK/from"
cp "$WORK/noise" "$WORK/from/image"
for bytes in $sector_sizes; do
	ram_disk host "$bytes" 512
	rm -f "$WORK/made"
	mksquashfs "$WORK/from" "$WORK/made" -quiet -no-progress
	dd if="$WORK/made" of="$DISK" bs=64k conv=fsync status=none
	mount_at "$DISK" "$WORK/squashfs" -t squashfs
	rm -rf "$WORK/memory/"{up,w}
	mkdir "$WORK/memory/"{up,w}
	mount_at overlay "$WORK/merged" -t overlay \
		-o "lowerdir=$WORK/squashfs" \
		-o "upperdir=$WORK/memory/up,workdir=$WORK/memory/w"
	read_only_host "overlayfs, below: squashfs" "$bytes" \
		"$WORK/merged/image"
	unmount "$WORK/merged"
	unmount "$WORK/squashfs"
	end_disk host
done
end_hosts
