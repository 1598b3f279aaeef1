# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
# Disks, and file systems on them.
[ -z "${DISKS_SH-}" ] || return 0
DISKS_SH=1

# the_disk N - the machine's Nth disk, counted from 1
the_disk() {
	local all
	read -ra all <<<"$DISKS"
	echo "${all[$(($1 - 1))]:?this machine has no such disk}"
}

# carve DISK NAME START-MIB SIZE-MIB - a part of a disk as a device of its own:
# /dev/mapper/NAME
carve() {
	echo "0 $(($4 * 2048)) linear $1 $(($3 * 2048))" | dmsetup create "$2"
	later dm_remove "$2"
}

# dm_remove NAME - waits for udev, which may have it open for a moment
dm_remove() {
	dmsetup remove --retry "$1" 2>/dev/null
}

# dm_becomes NAME LINES - what /dev/mapper/NAME is from now on
dm_becomes() {
	dmsetup suspend --noflush --nolockfs "$1"
	dmsetup load "$1" <<<"$2"
	dmsetup resume "$1"
	udev_settle
}

# dm_snapshot NAME BASE CHANGES - a writable snapshot of BASE, which keeps its
# changes in CHANGES: /dev/mapper/NAME, of two other dm devices
dm_snapshot() {
	local base=/dev/mapper/$2 changes=/dev/mapper/$3
	echo "0 $(sectors "$base") snapshot $base $changes N 16" |
		dmsetup create "$1"
}

# sectors DEVICE - its size in 512-byte sectors
sectors() {
	blockdev --getsz "$1"
}

# ram_disk NAME SECTOR-SIZE MEGABYTES [SETTING=VALUE]... - until end_disk NAME,
# or the end of the case: $DISK
ram_disk() {
	local folder=/sys/kernel/config/nullb/$1 setting
	modprobe null_blk nr_devices=0
	[ -e "${folder%/*}" ] ||
		mount_at configfs /sys/kernel/config -t configfs
	later end_disk "$1"
	mkdir "$folder"
	for setting in "size=$3" "blocksize=$2" memory_backed=1 \
		discard=1 "${@:4}" power=1; do
		echo "${setting#*=}" >"$folder/${setting%=*}"
	done
	udev_settle
	# Older kernels number them.
	DISK=/dev/$1
	[ -b "$DISK" ] || DISK=/dev/nullb$(<"$folder/index")
	is "a disk in memory: its sectors" \
		"$(attr "$DISK" queue/logical_block_size)" "$2"
}

# end_disk NAME - remove it if it exists
end_disk() {
	local folder=/sys/kernel/config/nullb/$1
	[ ! -e "$folder" ] || rmdir "$folder"
}

# rebind DISK N - with N queues to poll, which nvme makes when it begins
rebind() {
	local name=${1#/dev/} pci
	pci=$(basename "$(readlink -f "/sys/block/$name/device/device")")
	echo "$2" >/sys/module/nvme/parameters/poll_queues
	echo "$pci" >/sys/bus/pci/drivers/nvme/unbind
	echo "$pci" >/sys/bus/pci/drivers/nvme/bind
	wait_until 30 test -b "$1"
	udev_settle
}

# poll_queues DISK - give it a poll queue until the case ends
poll_queues() {
	later rebind "$1" 0
	rebind "$1" 1
}

# flushes - the number of flushes of the first disk
# (Documentation/block/stat.rst)
flushes() {
	local disk
	disk=$(the_disk 1)
	awk '{ print $16 }' "/sys/block/${disk#/dev/}/stat"
}

# make_fs FS DEVICE [OPTION]...
make_fs() {
	local fs=$1 device=$2
	shift 2
	case $fs in
	ext4) mkfs.ext4 -q -F "$@" "$device" ;;
	xfs) mkfs.xfs -q -f "$@" "$device" ;;
	btrfs) mkfs.btrfs -q -f "$@" "$device" >/dev/null ;;
	f2fs) mkfs.f2fs -q -f "$@" "$device" >/dev/null ;;
	vfat) mkfs.vfat "$@" "$device" >/dev/null ;;
	*) fail "make_fs: what is $fs?" ;;
	esac
}

# on_disk FS [DISK] [MKFS-OPTION]... - make a file system on the (first) disk
# and mount it for the length of the case: $MNT. FS: ext4 xfs btrfs f2fs vfat
on_disk() {
	local fs=$1 disk=${2-}
	shift
	[ $# -eq 0 ] || shift
	[ -n "$disk" ] || disk=${DISKS%% *}
	[ -n "$disk" ] || fail "this machine has no disk"
	make_fs "$fs" "$disk" "$@"
	MNT=$WORK/$fs-${disk##*/}
	mount_at "$disk" "$MNT"
}

# mount_at WHAT WHERE [MOUNT-OPTION]... - until the end of the case
mount_at() {
	local what=$1 where=$2
	shift 2
	mkdir -p "$where"
	mount "$@" "$what" "$where"
	later unmount "$where"
}

# served FILE OPTION... - by our own FUSE server (programs passthrough):
# $WORK/fuse/image is that file
served() {
	mkdir -p "$WORK/fuse"
	passthrough "${@:2}" "$1" "$WORK/fuse" &
	later unmount "$WORK/fuse"
	wait_until 20 mountpoint -q "$WORK/fuse"
}

# mounted WHERE - a path without links. Also if its file system has been shut
# down, which mountpoint doesn't know; and in a tenth of findmnt's time
mounted() {
	local lines line at
	mapfile -t lines </proc/self/mountinfo
	for line in "${lines[@]}"; do
		[[ $line == *" $1 "* ]] || continue
		read -r _ _ _ _ at _ <<<"$line"
		[ "$at" != "$1" ] || return 0
	done
	return 1
}

# unmount WHERE - if it is mounted; udev and others may use it for a moment
unmount() {
	local i
	for i in 1 2 3 4 5 6 7 8 9 10; do
		mounted "$1" || return 0
		umount "$1" && return 0
		sleep "0.$i"
	done
	umount "$1"
}

# fsck_of FS DEVICE - check it and repair nothing
fsck_of() {
	case $1 in
	ext4) fsck.ext4 -fn "$2" ;;
	xfs) xfs_repair -n "$2" ;;
	*) fail "fsck_of: what is $1?" ;;
	esac
}

# thaw WHERE - if it is frozen
thaw() {
	fsfreeze -u "$1" 2>/dev/null || true
}

# bytes_free - free space of the file system at $MNT
bytes_free() {
	echo $(($(stat -f -c '%a * %S' "$MNT")))
}

megabytes_free() {
	echo $(($(bytes_free) >> 20))
}

drop_caches() {
	sync
	echo 3 >/proc/sys/vm/drop_caches
}
