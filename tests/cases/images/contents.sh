#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: An image of any content is read through its device as on a disk of the
#   sectors that it was made for, or of 512 bytes. This holds whatever disk it
#   lies on, fresh, with shared blocks and with the clone removed, by losetup
#   and by floop, with the module and without it. Blank, unknown or nested
#   content keeps sectors of 512 bytes.
# modes: side-by-side drop-in
# machines: stable-drop-in
# timeout: 900
# debug: no
# coverage: no
. tests/lib/images.sh

# KIND SECTORS MEGABYTES: what it is, the sectors of the disk on which it is
# made, and its size. Most of what the command tells apart by itself, and of
# what it leaves to others, is among the first.
contents="
blank 512 8
gpt 512 8
gpt 4096 8
mbr 4096 8
luks2 4096 24
lvm 512 8
md-on-ext4 512 16
swap 4096 8
vfat 4096 64
ntfs 512 16
ext2-1k 512 8
ext4 4096 16
xfs 512 320
squashfs 512 4
"
[ -z "${LONG-}" ] || contents+="
mbr 512 8
luks1 512 8
luks2 512 24
lvm 4096 8
md 512 16
md 4096 16
zfs 512 8
bcache 512 8
bcache 4096 8
swap 512 8
vfat 512 8
exfat 512 16
exfat 4096 16
ntfs 4096 16
ext2 512 8
ext3 512 16
ext4 512 16
xfs 4096 320
btrfs 512 128
f2fs 512 64
iso 512 4
erofs 512 4
"
# Sectors of 512 bytes are all that these get.
keeps="blank mbr luks1 luks2 lvm md md-on-ext4 zfs bcache"
keeps+=" f2fs iso ext2-1k"

key=$WORK/key
echo secret >"$key"
mkdir "$WORK/from" "$WORK/in" "$WORK/images" "$WORK/seen"
echo hello >"$WORK/from/hello"

# udev looks at each device, which would take most of the time.
without_udev

# mount_type KIND - mount's name for it, in $type; empty if it can't be mounted
mount_type() {
	type=
	case $1 in
	ntfs) type=$ntfs ;;
	iso) type=iso9660 ;;
	ext2-1k) type=ext2 ;;
	vfat | exfat | ext2 | ext3 | ext4 | xfs | btrfs | f2fs) type=$1 ;;
	squashfs | erofs) type=$1 ;;
	esac
}
ntfs=ntfs
! modprobe -q ntfs3 || ntfs=ntfs3

# content_disk SECTORS MEGABYTES - $DISK, which is empty. It is made once
declare -A content_disks
content_disk() {
	DISK=${content_disks[$1-$2]-}
	if [ -n "$DISK" ]; then
		blkdiscard -f -q "$DISK"
	else
		ram_disk "content-$1-$2" "$1" "$2"
		content_disks[$1-$2]=$DISK
	fi
}

# uberblocks DISK - as many of ZFS's as libblkid wants to see
uberblocks() {
	local i
	for i in 0 1 2 3 4 5 6 7; do
		printf '\x0c\xb1\xba\0\0\0\0\0' |
			dd of="$1" bs=1 seek=$((131072 + i * 1024)) \
			conv=notrunc status=none
	done
}

# luks_format DISK OPTION...
luks_format() {
	cryptsetup luksFormat -q --pbkdf-force-iterations 1000 "${@:2}" \
		"$1" "$key"
}

# make KIND DISK SECTORS
make() {
	local type
	case $1 in
	blank) ;;
	gpt) printf 'label: gpt\nsize=2M\nsize=1M\n' | sfdisk -q "$2" ;;
	mbr) printf 'label: dos\nsize=2M\nsize=1M\n' | sfdisk -q "$2" ;;
	luks1) luks_format "$2" --type luks1 ;;
	luks2) luks_format "$2" --type luks2 --pbkdf pbkdf2 \
		--sector-size "$3" ;;
	# LVM knows the kinds of disks by name, and not this one.
	lvm) pvcreate -q -y --config 'devices/types=["nullb",16]' "$2" ;;
	# The array begins after the old content, which stays.
	md-on-ext4)
		mkfs.ext4 -q -F -b 4096 "$2"
		make md "$2" "$3"
		;;
	md)
		MDADM_NO_UDEV=1 mdadm -C /dev/md7 -q -R --force -e 1.2 \
			-l 1 -n 1 "$2"
		MDADM_NO_UDEV=1 mdadm -S -q /dev/md7
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
		from_file mksquashfs "$WORK/from" "$WORK/made" -quiet \
			-no-progress
		;;
	erofs) from_file mkfs.erofs --quiet "$WORK/made" "$WORK/from" ;;
	esac
	# A writable file system gets a file.
	mount_type "$1"
	case $type in
	'' | iso9660 | squashfs | erofs) ;;
	*)
		mount -i -t "$type" "$2" "$WORK/in"
		echo hello >"$WORK/in/hello"
		umount "$WORK/in"
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
	local name=${2#/dev/} part type mode=ro line
	while read -r line; do
		[[ $line == DEVNAME=* ]] || echo "$line"
	done < <(blkid -p -o export "$2")
	for part in "/sys/block/$name/$name"*/partition; do
		[ ! -e "$part" ] ||
			echo "partition $(<"$part")," \
				"$(<"${part%/*}/size") at $(<"${part%/*}/start")"
	done
	mount_type "$1"
	# Otherwise xfs writes to its log.
	[ "$type" != xfs ] || mode=ro,norecovery
	if [ -n "$type" ]; then
		if mount -i -t "$type" -o "$mode" "$2" \
			"$WORK/in" 2>/dev/null; then
			echo "a file: $(<"$WORK/in/hello")"
			umount "$WORK/in"
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
		cryptsetup close inside
		;;
	esac
}

# read_disk KIND - the same through $DISK, in which it has just been put
read_disk() {
	blockdev --rereadpt "$DISK"
	reading "$1" "$DISK"
}

# attach_by HOW NAME... - with their partitions; prints the devices
attach_by() {
	local command
	case $1 in
	losetup) command=(losetup --find --show --partscan) ;;
	floop) command=("$FLOOP" attach --partscan) ;;
	in-tree) command=("$FLOOP" attach --partscan --driver loop) ;;
	esac
	printf "$MNT/%s\n" "${@:2}" |
		xargs -n 1 "${command[@]}" 2>>"$WORK/warnings" ||
		fail "by $1: $(tail -n 3 "$WORK/warnings")"
}

# looks HOW KIND NAME DEVICE - its sectors are fine, and it is read as on a disk
# of 512, or, in larger ones, as it was made. It is read once for each disk,
# driver and sector size
looks() {
	local what="$3 on $disk, $state, by $1" wanted=512
	local driver=${4#/dev/} sectors direct seen
	read -r sectors <"/sys/block/${4#/dev/}/queue/logical_block_size"
	read -r direct <"/sys/block/${4#/dev/}/loop/dio"
	if [[ " $keeps " == *" $2 "* ]]; then
		[ "$sectors" = 512 ] || fail "$what: sectors of $sectors"
	fi
	[ "$sectors" = 512 ] || wanted=made
	seen=$WORK/seen/$3.$disk.${driver%%[0-9]*}.$sectors.$direct
	if [ ! -e "$seen" ]; then
		reading "$2" "$4" >"$seen"
		diff -u --label "on a disk ($wanted)" --label "here" \
			"$WORK/seen/$3.$wanted" "$seen" ||
			fail "$what: in sectors of $sectors it reads differently"
	fi
	echo "ok: $what: sectors of $sectors, direct $direct"
}

# look HOW - at all images of the disk, a few attached at a time: an attach by
# the command looks at every attached device
look() {
	local first i devices
	for ((first = 0; first < ${#names[@]}; first += 6)); do
		attach_by "$1" "${names[@]:first:6}" >"$WORK/devices"
		mapfile -t devices <"$WORK/devices"
		for i in "${!devices[@]}"; do
			looks "$1" "${kinds[first + i]}" "${names[first + i]}" \
				"${devices[i]}"
		done
		check "detach" "$FLOOP" detach "${devices[@]}"
	done
}

# same_files FOLDER OTHER - the images are the same in both
same_files() {
	python3 - "$1" "$2" "${names[@]}" <<'PYTHON'
"""Compares the data of both. Most of an image is a hole."""
import errno
import os
import sys


def data(fd):
    """Where the data of a file are: (first byte, behind the last)."""
    end = 0
    while True:
        try:
            start = os.lseek(fd, end, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return
            raise
        end = os.lseek(fd, start, os.SEEK_HOLE)
        yield start, end


for name in sys.argv[3:]:
    paths = [f"{folder}/{name}" for folder in sys.argv[1:3]]
    pair = [os.open(path, os.O_RDONLY) for path in paths]
    sizes = {os.fstat(fd).st_size for fd in pair}
    if len(sizes) != 1:
        sys.exit(f"{name}: its size has changed")
    for fd in pair:
        for start, end in data(fd):
            if len({os.pread(fd, end - start, start) for fd in pair}) != 1:
                sys.exit(f"{name}: something has changed in {start} to {end}")
    for fd in pair:
        os.close(fd)
PYTHON
}

if [ "$DRIVER_MODE" = side-by-side ]; then
	modprobe loop
	hows="floop in-tree"
else
	hows="losetup floop"
fi

kinds=() names=()
while read -r -u 3 kind sectors size; do
	[ -n "$kind" ] || continue
	name=$kind-$sectors
	kinds+=("$kind")
	names+=("$name")
	content_disk "$sectors" "$size"
	check "$name: made" make "$kind" "$DISK" "$sectors"
	read_disk "$kind" >"$WORK/seen/$name.made"
	dd if="$DISK" of="$WORK/images/$name" bs=64k conv=sparse status=none
	truncate -s "${size}M" "$WORK/images/$name"
	if [ "$sectors" = 512 ]; then
		cp "$WORK/seen/$name.made" "$WORK/seen/$name.512"
	else
		content_disk 512 "$size"
		dd if="$WORK/images/$name" of="$DISK" bs=64k \
			conv=sparse status=none
		read_disk "$kind" >"$WORK/seen/$name.512"
	fi
done 3<<<"$contents"
grep -H . "$WORK"/seen/*.made | sed "s|$WORK/seen/||"

# The disk of the image, and the driver and the command, are independent: each
# machine has one disk, and with LONG both.
disks=4096
[ "$KERNEL" != lts ] || disks=512
[ -z "${LONG-}" ] || disks="4096 512"
for disk in $disks; do
	ram_disk host "$disk" 1024
	make_fs xfs "$DISK" -m reflink=1
	MNT=$WORK/host
	mount_at "$DISK" "$MNT"
	cp --sparse=always "$WORK"/images/* "$MNT"
	for state in fresh reflinked "with the clone removed"; do
		case $state in
		reflinked)
			mkdir "$MNT/clones"
			cp --reflink=always "${names[@]/#/$MNT/}" "$MNT/clones"
			;;
		with*)
			rm -r "$MNT/clones"
			sync
			;;
		esac
		# What a file shares matters less than who attaches it.
		these=$hows
		[ "$state" = fresh ] || [ -n "${LONG-}" ] || these=${hows##* }
		for how in $these; do
			look "$how"
		done
	done
	check "disk of $disk: nothing was written to the images" \
		same_files "$WORK/images" "$MNT"
	unmount "$MNT"
	end_disk host
done
