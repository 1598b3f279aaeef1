#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: An image on overlayfs holds what its device was given. One from the
#   lower layer is copied up.
# machines: lts-drop-in
. tests/lib/images.sh

on_disk ext4
mkdir "$MNT/lower" "$MNT/upper" "$MNT/work" "$WORK/merged"
lower=$(mkimage 12M "$MNT/lower/image")
noise "$WORK/first" 1
put "$WORK/first" 10 1 "$lower"
below=$(sum_of "$lower")
mount_at overlay "$WORK/merged" -t overlay \
	-o "lowerdir=$MNT/lower,upperdir=$MNT/upper,workdir=$MNT/work"
exercise "$(mkimage 12M "$WORK/merged/new")"

device=$(attach --read-only "$WORK/merged/image")
is "what lies below is there" "$(sum_of "$device")" "$below"
detach "$device"
is "reading copies nothing up" "$(glob "$MNT/upper/image")" ""
device=$(attach "$WORK/merged/image")
put "$WORK/first" 3 1 "$device" oflag=direct
detach "$device"
is "what lies below stays" "$(sum_of "$lower")" "$below"
put "$WORK/first" 3 1 "$lower"
is "and the copy has what was written" "$(sum_of "$WORK/merged/image")" \
	"$(sum_of "$lower")"
