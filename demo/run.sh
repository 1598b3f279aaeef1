#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# The demo itself, for root, in the test machine or (NATIVE=1) here. Usage:
#   run.sh side-by-side|drop-in FOLDER RESULTS
# Makes a disk image in FOLDER, makes it a block device, fills and checks its
# file systems, and adds a line for each way of attaching it to the table in
# RESULTS.

set -euo pipefail

mode=$1 folder=$2 results=$3
floop=$(cd "$(dirname "$0")/.." && pwd)/cli/target/release/floop
image=$folder/disk.img
mounts=$folder/mnt

# A real tree of files: the kernel's headers, or whatever headers there are.
for tree in /usr/src/linux-headers-*-common/include/net \
	"/usr/src/linux-headers-$(uname -r)/include/net" /usr/include/linux; do
	[ -d "$tree" ] && break
done

say()
{
	printf '\n# %s\n' "$*"
}

# run COMMAND...: show it and run it.
run()
{
	printf '$ %s\n' "$*"
	"$@"
}

# quiet COMMAND...: the same for one whose output is shown only if it fails.
quiet()
{
	printf '$ %s\n' "$*"
	"$@" > "$folder/output" 2>&1 || { cat "$folder/output"; exit 1; }
}

switches()
{
	awk '$1 == "ctxt" { print $2 }' /proc/stat
}

start()
{
	started=$(date +%s.%N)
	switched=$(switches)
}

# finish DRIVER HOW DEVICE: the line of the table, while the device is still
# attached.
finish()
{
	local name=${3#/dev/} seconds direct
	seconds=$(awk -v a="$started" -v b="$(date +%s.%N)" \
		'BEGIN { printf "%.1f", b - a }')
	switched=$(($(switches) - switched))
	direct=$(cat "/sys/block/$name/loop/dio")
	[ "$direct" = 1 ] && direct=yes || direct=no
	printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\n' \
		"$1" "$2" "$3" "$direct" "$seconds" "$switched" \
		"$(fincore --noheadings --raw --output PAGES "$image")" \
		>> "$results"
}

drop_caches()
{
	run sync
	printf '$ echo 3 > /proc/sys/vm/drop_caches\n'
	echo 3 > /proc/sys/vm/drop_caches
}

# copy FOLDER, check FOLDER: the tree of files goes there; every file's checksum
# is right.
copy()
{
	run cp -r "$tree" "$1/headers"
}

check()
{
	printf '$ (cd %s && sha256sum --check)\n' "$1/headers"
	(cd "$1/headers" && sha256sum --quiet --check "$folder/sums")
	printf 'all %d files are what they should be\n' \
		"$(wc -l < "$folder/sums")"
}

make_image()
{
	say "An image of 900 MB: a GPT, an EFI system partition," \
		"one for ext4, one for xfs"
	rm -f "$image"
	run truncate -s 900M "$image"
	printf '%s\n' 'label: gpt' 'size=64M, type=uefi' 'size=400M' \
		'type=linux' |
		run sfdisk --quiet "$image"
	mkdir -p "$mounts/esp" "$mounts/ext4" "$mounts/xfs"
	(cd "$tree" && find . -type f -exec sha256sum {} + > "$folder/sums")
}

# use DEVICE: format its partitions, fill, check, unmount.
use()
{
	run udevadm settle
	quiet mkfs.vfat -F 32 -n EFI "${1}p1"
	run mkfs.ext4 -q "${1}p2"
	run mkfs.xfs -q -f "${1}p3"
	run mount "${1}p1" "$mounts/esp"
	run mount "${1}p2" "$mounts/ext4"
	run mount "${1}p3" "$mounts/xfs"
	run cp "$0" "$mounts/esp/BOOT.SH"
	copy "$mounts/ext4"
	copy "$mounts/xfs"
	drop_caches
	check "$mounts/ext4"
	check "$mounts/xfs"
	run cmp "$0" "$mounts/esp/BOOT.SH"
	run umount "$mounts/esp" "$mounts/ext4" "$mounts/xfs"
	run fsck.vfat -n "${1}p1"
	run fsck.ext4 -f -n "${1}p2"
	quiet xfs_repair -n "${1}p3"
	printf 'clean\n'
}

side_by_side()
{
	local device
	say "floop, side by side with the in-tree driver"
	start
	printf '$ floop attach --partscan %s\n' "$image"
	device=$("$floop" attach --partscan "$image")
	printf '%s\n' "$device"
	run lsblk -o NAME,SIZE,TYPE,LOG-SEC "$device"
	use "$device"
	printf '$ floop status %s\n' "$device"
	"$floop" status "$device"
	finish floop 'floop attach' "$device"
	printf '$ floop detach %s\n' "$device"
	"$floop" detach "$device"

	say "the in-tree loop driver, for comparison"
	modprobe loop
	make_image > /dev/null
	start
	printf '$ losetup -P -f --show %s\n' "$image"
	device=$(losetup -P -f --show "$image")
	printf '%s\n' "$device"
	use "$device"
	finish 'loop, in-tree' 'losetup -P' "$device"
	run losetup -d "$device"
}

drop_in()
{
	local device start size
	say "floop as the loop driver: losetup and mount -o loop" \
		"as they come with Debian"
	start
	printf '$ losetup -P -f --show %s\n' "$image"
	device=$(losetup -P -f --show "$image")
	printf '%s\n' "$device"
	use "$device"
	run losetup -l "$device"
	finish 'floop, drop-in' 'losetup -P' "$device"
	run losetup -d "$device"

	say "the ext4 partition alone, by mount -o loop"
	read -r start size < <(sfdisk --dump "$image" |
		awk -F '[=,]' '/img2/ { print $2 * 512, $4 * 512 }')
	start
	run mount -o "loop,offset=$start,sizelimit=$size" "$image" \
		"$mounts/ext4"
	device=$(findmnt -n -o SOURCE "$mounts/ext4")
	run rm -r "$mounts/ext4/headers"
	copy "$mounts/ext4"
	drop_caches
	check "$mounts/ext4"
	finish 'floop, drop-in' 'mount -o loop' "$device"
	run umount "$mounts/ext4"
}

make_image
case $mode in
side-by-side) side_by_side ;;
drop-in) drop_in ;;
esac
