#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: The image's owner, another user and a container's root use every kind
#   of descriptor of the image, obtained before the attach and after (modes 0 to
#   3, O_PATH, /proc/self/fd, SCM_RIGHTS, io_uring, overlays). Whatever they do,
#   the device reads nothing of others', none of its data lands in others'
#   files, and what was written to it stays.
# modes: side-by-side
# timeout: 500
# long: lts
. tests/lib/case.sh
programs loopdev adversary
seed

# By hand: FILESYSTEMS=xfs OPTIONS="-a uncounted -k dedupe,sync" LONG=10
# A small file system with little room: other files soon get the blocks that the
# image loses.
begin() {
	local options=() leave=$((48 << 20)) free
	case $1 in
	ext4) options=(-b 4096 -E "lazy_itable_init=0,lazy_journal_init=0") ;;
	xfs) options=(-m "reflink=1,rmapbt=1" -i exchange=1) ;;
	esac
	make_fs "$1" /dev/mapper/small "${options[@]}" ||
		make_fs "$1" /dev/mapper/small
	mount_at /dev/mapper/small "$MNT"
	adversary -i -s "$SEED" "$MNT/image" 8m
	free=$(bytes_free)
	[ "$free" -le "$leave" ] ||
		fallocate -l $((free - leave)) "$MNT/ballast"
	DEV=/dev/$PREFIX$(loopdev free)
}

end() {
	[ ! -e "/sys/block/${DEV#/dev/}/loop" ] || loopdev detach "$DEV" || true
}

map_images
modprobe overlay
[ ! -e /proc/sys/kernel/io_uring_disabled ] ||
	echo 0 >/proc/sys/kernel/io_uring_disabled
[ ! -e /proc/sys/kernel/unprivileged_userns_clone ] ||
	echo 1 >/proc/sys/kernel/unprivileged_userns_clone
read -ra options <<<"${OPTIONS-}"
chmod 0755 "$WORK"
MNT=$WORK/small
carve "$(the_disk 1)" small 0 400
for fs in ${FILESYSTEMS-ext4 xfs}; do
	echo "--- $fs"
	begin "$fs"
	later end
	adversary -s "$SEED" -t "$(more 11)" "${options[@]}" "$DEV" "$MNT/image"
	unmount "$MNT"
	check "the file system" fsck_of "$fs" /dev/mapper/small
done
