#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: Random operations agree with a model for images on ext4, xfs, btrfs,
#   f2fs, tmpfs, overlayfs, FUSE and a bare disk, at any offset.
# kernels: stable
# modes: side-by-side
# timeout: 400
# long: yes
. tests/lib/case.sh
programs loopdev devfsx
seed

# model FILE OFFSET [devfsx option] - the image begins there, and ends before
# the file does
model() {
	local dev how
	for how in direct buffered; do
		dev=$(loop_attach "$how" -o "$2" -s 6291456 "$1")
		echo "$1 offset $2 $how, is direct: $(dio "$dev")," \
			"sectors of $(blockdev --getss "$dev")"
		devfsx "${@:3}" -f "$1" -o "$2" -n "$(more 60)" -j 2 \
			-s "$SEED" "$dev"
		loopdev detach "$dev"
		SEED=$((SEED + 1))
	done
}

disk=$(the_disk 1)
for fs in ext4 xfs btrfs f2fs; do
	wipefs -qa "$disk"
	make_fs "$fs" "$disk"
	mkdir -p "$WORK/$fs"
	mount "$disk" "$WORK/$fs"
	mkimage 9M "$WORK/$fs/image" >/dev/null
	model "$WORK/$fs/image" 0
	model "$WORK/$fs/image" 1049088
	if [ "$fs" = ext4 ]; then
		mkdir "$WORK/ext4/upper" "$WORK/ext4/work" "$WORK/overlay"
		mount -t overlay -o "lowerdir=$WORK" \
			-o "upperdir=$WORK/ext4/upper,workdir=$WORK/ext4/work" \
			overlay "$WORK/overlay"
		mkimage 9M "$WORK/overlay/image" >/dev/null
		model "$WORK/overlay/image" 4096
		unmount "$WORK/overlay"

		mkdir "$WORK/fuse"
		bindfs "$WORK/ext4" "$WORK/fuse"
		mkimage 9M "$WORK/fuse/behind" >/dev/null
		# this one has no fallocate() for holes
		model "$WORK/fuse/behind" 512 -D
		unmount "$WORK/fuse"
	fi
	unmount "$WORK/$fs"
done
mkimage 9M "$WORK/image" >/dev/null
# tmpfs makes holes, but has no zeroing. Its refusal turns write zeroes off for
# the device, and the kernel then refuses a hole after it has dropped the dirty
# pages.
model "$WORK/image" 0 -D
model "$WORK/image" 512 -D
wipefs -qa "$disk"
model "$disk" 0
model "$disk" 1049088
