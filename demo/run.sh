#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# The demo's round trip, for root, in the test machine or (NATIVE=1) here.
# Usage:
#   run.sh side-by-side FOLDER RESULTS
#   run.sh drop-in FOLDER
# The first makes a disk image in FOLDER. By each of the three drivers the image
# becomes a block device, gets file systems, is filled, checked and detached;
# RESULTS gets the seconds that this took, a line each. The second has losetup
# and mount use what the first has left there, by floop in the loop driver's
# place.

. "$(dirname "$0")/lib.sh"

mode=$1 folder=$2
image=$folder/disk.img
mounts=$folder/mnt

# A real tree of files: the kernel's headers, or whatever headers there are.
for tree in /usr/src/linux-headers-*-common/include/net \
	"/usr/src/linux-headers-$(uname -r)/include/net" /usr/include/linux; do
	[ -d "$tree" ] && break
done

# quiet COMMAND...: show and run it; its output is shown only if it fails.
quiet()
{
	printf '$ %s\n' "$*"
	"$@" > "$folder/output" 2>&1 || { cat "$folder/output"; exit 1; }
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
	say "An image of 700 MB, which will get a GPT, an EFI system" \
		"partition, ext4 and xfs"
	run floop create "$image" 700M
	mkdir -p "$mounts/esp" "$mounts/ext4" "$mounts/xfs"
	(cd "$tree" && find . -type f -exec sha256sum {} + > "$folder/sums")
}

# partitions: write a new GPT to the image. What is on it is gone.
partitions()
{
	printf '%s\n' 'label: gpt' 'size=64M, type=uefi' 'size=200M' \
		'type=linux' |
		quiet sfdisk --wipe=always "$image"
}

# use: format the device's partitions, fill, check, unmount.
use()
{
	run udevadm settle
	quiet mkfs.vfat -F 32 -n EFI "${device}p1"
	run mkfs.ext4 -q -F "${device}p2"
	run mkfs.xfs -q -f "${device}p3"
	run mount "${device}p1" "$mounts/esp"
	run mount "${device}p2" "$mounts/ext4"
	run mount "${device}p3" "$mounts/xfs"
	run cp "$0" "$mounts/esp/BOOT.SH"
	copy "$mounts/ext4"
	copy "$mounts/xfs"
	drop_caches
	check "$mounts/ext4"
	check "$mounts/xfs"
	run cmp "$0" "$mounts/esp/BOOT.SH"
	run umount "$mounts/esp" "$mounts/ext4" "$mounts/xfs"
	quiet fsck.vfat -n "${device}p1"
	quiet fsck.ext4 -f -n "${device}p2"
	quiet xfs_repair -n "${device}p3"
	printf 'all three are clean\n'
}

# round_trip WAY: attach, use and detach, with the seconds for the table.
round_trip()
{
	local started
	say "The round trip: $(title "$1")"
	partitions
	started=$(date +%s.%N)
	attach "$1" "$image" partitions
	use
	detach "$1"
	awk -v a="$started" -v b="$(date +%s.%N)" \
		'BEGIN { printf "%.1f\n", b - a }' >> "$results"
}

drop_in()
{
	local device start size
	say "floop as the loop driver: losetup and mount -o loop" \
		"as they come with Debian"
	attach loop "$image" partitions
	run udevadm settle
	run losetup -l "$device"
	run mount "${device}p3" "$mounts/xfs"
	check "$mounts/xfs"
	run umount "$mounts/xfs"
	detach loop
	read -r start size < <(sfdisk --dump "$image" |
		awk -F '[=,]' '/img2/ { print $2 * 512, $4 * 512 }')
	run mount -o "loop,offset=$start,sizelimit=$size" "$image" \
		"$mounts/ext4"
	check "$mounts/ext4"
	run umount "$mounts/ext4"
}

case $mode in
side-by-side)
	results=$3
	modprobe loop
	make_image
	for way in "${ways[@]}"; do
		round_trip "$way"
	done
	;;
drop-in) drop_in ;;
esac
