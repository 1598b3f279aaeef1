#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: an image of any content is read through its device as it is on a disk of the sectors that it was made for, or of 512 bytes, whatever disk it lies on, fresh, with shared blocks and with the clone removed, by losetup and the command floop, with the module and without it. What is blank, not known, or has others inside stays in sectors of 512 bytes
# modes: side-by-side drop-in
# machines: lts-side-by-side stable-drop-in
# timeout: 1200
# debug: no
. tests/guest/lib.sh
. tests/guest/images.sh
. tests/guest/cli.sh

# KIND SECTORS MEGABYTES: what it is, the sectors of the disk on which it is
# made, and its size
contents="
blank 512 8
gpt 512 8
gpt 4096 8
mbr 512 8
mbr 4096 8
luks1 512 8
luks2 512 24
luks2 4096 24
lvm 512 8
lvm 4096 8
md 512 16
md 4096 16
md-on-ext4 512 16
zfs 512 8
bcache 512 8
bcache 4096 8
swap 512 8
swap 4096 8
vfat 512 8
vfat 4096 64
exfat 512 16
exfat 4096 16
ntfs 512 16
ntfs 4096 16
ext2-1k 512 8
ext2 512 8
ext3 512 16
ext4 512 16
ext4 4096 16
xfs 512 320
xfs 4096 320
btrfs 512 128
f2fs 512 64
iso 512 4
squashfs 512 4
erofs 512 4
"
# Sectors of 512 bytes are all that these get.
keeps="blank mbr luks1 luks2 lvm md md-on-ext4 zfs bcache"
keeps+=" f2fs iso ext2-1k"

key=$WORK/key
echo secret >"$key"
mkdir "$WORK/from" "$WORK/in"
echo hello >"$WORK/from/hello"

# mount_type KIND - as mount calls it; nothing for what is not mounted
mount_type() {
	case $1 in
	ntfs) if modprobe -q ntfs3; then echo ntfs3; else echo ntfs; fi ;;
	iso) echo iso9660 ;;
	ext2-1k) echo ext2 ;;
	vfat | exfat | ext2 | ext3 | ext4 | xfs | btrfs | f2fs) echo "$1" ;;
	squashfs | erofs) echo "$1" ;;
	esac
}

# uberblocks DISK - as many of ZFS's as libblkid wants to see
uberblocks() {
	local i
	for i in 0 1 2 3 4 5 6 7; do
		printf '\x0c\xb1\xba\0\0\0\0\0' |
			dd of="$1" bs=1 seek=$((131072 + i * 1024)) conv=notrunc status=none
	done
}

# luks_format DISK OPTION...
luks_format() {
	cryptsetup luksFormat -q --pbkdf-force-iterations 1000 "${@:2}" \
		"$1" "$key"
}

# make KIND DISK SECTORS
make() {
	case $1 in
	blank) ;;
	gpt) printf 'label: gpt\nsize=2M\nsize=1M\n' | sfdisk -q "$2" ;;
	mbr) printf 'label: dos\nsize=2M\nsize=1M\n' | sfdisk -q "$2" ;;
	luks1) luks_format "$2" --type luks1 ;;
	luks2) luks_format "$2" --type luks2 --pbkdf pbkdf2 --sector-size "$3" ;;
	# It knows the kinds of disks by name, and not this one.
	lvm) pvcreate -q -y --config 'devices/types=["nullb",16]' "$2" ;;
	# It begins behind what was there before, which stays.
	md-on-ext4)
		mkfs.ext4 -q -F -b 4096 "$2"
		make md "$2" "$3"
		;;
	md)
		mdadm -C /dev/md7 -q -R --force -e 1.2 -l 1 -n 1 "$2"
		udev_settle
		mdadm -S -q /dev/md7
		;;
	zfs) uberblocks "$2" ;;
	bcache) make-bcache -B --block "$3" "$2" ;;
	swap) mkswap -q "$2" ;;
	vfat) mkfs.vfat "$2" ;;
	exfat) mkfs.exfat -q "$2" ;;
	ntfs) mkntfs -q -f -F -s "$3" "$2" ;;
	ext2-1k) mkfs.ext2 -q -F -b 1024 "$2" ;;
	ext2 | ext3 | ext4) "mkfs.$1" -q -F -b 4096 "$2" ;;
	xfs) mkfs.xfs -q -f "$2" ;;
	btrfs) mkfs.btrfs -q -f -s 4096 "$2" ;;
	f2fs) mkfs.f2fs -q -f "$2" ;;
	iso) genisoimage -quiet "$WORK/from" | dd of="$2" bs=64k status=none ;;
	squashfs)
		from_file mksquashfs "$WORK/from" "$WORK/made" -quiet -no-progress
		;;
	erofs) from_file mkfs.erofs --quiet "$WORK/made" "$WORK/from" ;;
	esac
	udev_settle
	# What can be written to holds a file.
	case $1 in
	iso | squashfs | erofs) ;;
	*)
		[ -n "$(mount_type "$1")" ] || return 0
		mount -i -t "$(mount_type "$1")" "$2" "$WORK/in"
		echo hello >"$WORK/in/hello"
		unmount "$WORK/in"
		;;
	esac
}

# from_file COMMAND... - that makes $WORK/made, on $DISK
from_file() {
	rm -f "$WORK/made"
	"$@" >/dev/null
	dd if="$WORK/made" of="$DISK" bs=64k status=none
}

# reading KIND DEVICE - all that is seen of the content through a device
reading() {
	local name=${2#/dev/} part type mode=ro
	blkid -p -o export "$2" | grep -v ^DEVNAME= | sort || true
	for part in "/sys/block/$name/$name"*/partition; do
		[ ! -e "$part" ] ||
			echo "$(paste "$part" "${part%/*}"/{start,size}): partition"
	done
	type=$(mount_type "$1")
	# Or it writes to its log.
	[ "$type" != xfs ] || mode=ro,norecovery
	if [ -n "$type" ]; then
		if mount -i -t "$type" -o "$mode" "$2" "$WORK/in" 2>/dev/null; then
			echo "a file: $(<"$WORK/in/hello")"
			unmount "$WORK/in"
		else
			echo "can't be mounted"
		fi
	fi
	case $1 in
	swap)
		if swapon "$2" 2>/dev/null; then
			echo "swap is on"
			swapoff "$2"
		else
			echo "no swap"
		fi
		;;
	luks*)
		cryptsetup open --readonly --key-file "$key" "$2" inside
		echo "inside: sectors of $(blockdev --getss /dev/mapper/inside)," \
			"$(head -c 64k /dev/mapper/inside | sha256sum)"
		udev_settle
		cryptsetup close inside
		;;
	esac
}

# read_disk KIND - the same through $DISK, in which it has just been put
read_disk() {
	blockdev --rereadpt "$DISK"
	udev_settle
	reading "$1" "$DISK"
}

# attached HOW IMAGE [--partscan] - the device
attached() {
	case $1 in
	losetup) losetup -f --show ${3:+-P} "$2" ;;
	floop) "$FLOOP" attach ${3:+"$3"} "$2" 2>>"$WORK/warnings" ;;
	in-tree) "$FLOOP" attach --driver loop ${3:+"$3"} "$2" \
		2>>"$WORK/warnings" ;;
	esac
}

# looks HOW KIND IMAGE - the device's sectors are fine. What such sectors show is
# read once a disk and HOW: it is as it was made, or as on a disk of 512
looks() {
	local name=${3##*/} device sectors partscan=
	local seen=$WORK/seen/$name what="$name on $disk, $state, by $1"
	[ "$state" != fresh ] || partscan=--partscan
	device=$(attached "$1" "$3" $partscan)
	sectors=$(attr "$device" queue/logical_block_size)
	if [[ " $keeps " == *" $2 "* ]]; then
		[ "$sectors" = 512 ] || fail "$what: sectors of $sectors"
	fi
	if [ ! -e "$seen.$disk.$1.$sectors" ]; then
		if [ -z "$partscan" ]; then
			detach "$device"
			device=$(attached "$1" "$3" --partscan)
		fi
		udev_settle
		reading "$2" "$device" >"$seen.now"
		cmp -s "$seen.now" "$seen.512" || cmp -s "$seen.now" "$seen.made" || {
			diff -u --label "as made" --label "in sectors of $sectors" \
				"$seen.made" "$seen.now" || true
			fail "$what: read neither as made nor as in 512"
		}
		mv "$seen.now" "$seen.$disk.$1.$sectors"
	fi
	echo "ok: $what: sectors of $sectors, direct $(dio "$device")"
	detach "$device"
}

if [ "$DRIVER_MODE" = side-by-side ]; then
	modprobe loop
	hows="floop in-tree"
else
	hows="losetup floop"
fi

mkdir "$WORK/images" "$WORK/seen"
while read -r -u 3 kind sectors size; do
	[ -n "$kind" ] || continue
	name=$kind-$sectors
	ram_disk content "$sectors" "$size"
	check "$name: made" make "$kind" "$DISK" "$sectors"
	read_disk "$kind" >"$WORK/seen/$name.made"
	dd if="$DISK" of="$WORK/images/$name" bs=64k conv=sparse status=none
	truncate -s "${size}M" "$WORK/images/$name"
	end_disk content
	if [ "$sectors" = 512 ]; then
		cp "$WORK/seen/$name.made" "$WORK/seen/$name.512"
	else
		ram_disk content 512 "$size"
		dd if="$WORK/images/$name" of="$DISK" bs=64k conv=sparse status=none
		read_disk "$kind" >"$WORK/seen/$name.512"
		end_disk content
	fi
	if [ "$DRIVER_MODE" = side-by-side ]; then
		device=$(attached losetup "$WORK/images/$name" --partscan)
		udev_settle
		reading "$kind" "$device" >"$WORK/seen/$name.in-tree"
		detach "$device"
		check "$name: in-tree, buffered, as on a disk of 512" \
			diff "$WORK/seen/$name.in-tree" "$WORK/seen/$name.512"
	fi
done 3<<<"$contents"
grep -H . "$WORK"/seen/*.made | sed "s|$WORK/seen/||"

for disk in 4096 512; do
	ram_disk host "$disk" 1024
	make_fs xfs "$DISK" -m reflink=1
	MNT=$WORK/host
	mount_at "$DISK" "$MNT"
	while read -r -u 3 kind sectors size; do
		[ -n "$kind" ] || continue
		name=$kind-$sectors
		image=$MNT/$name
		cp --sparse=always "$WORK/images/$name" "$image"
		for state in fresh reflinked "with the clone removed"; do
			case $state in
			reflinked) cp --reflink=always "$image" "$MNT/clone" ;;
			with*) rm "$MNT/clone" && sync ;;
			esac
			for how in $hows; do
				looks "$how" "$kind" "$image"
			done
		done
		check "$name on a disk of $disk: nothing was written to it" \
			cmp "$image" "$WORK/images/$name"
		rm "$image"
	done 3<<<"$contents"
	unmount "$MNT"
	end_disk host
done
