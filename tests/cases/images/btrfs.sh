#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: An image on btrfs holds what its device was given. I/O to it is direct,
#   with pages that don't change on the way.
# machines: lts-side-by-side stable-drop-in
. tests/lib/images.sh

exercise_direct btrfs

device=$(attach "$(mkimage 8M "$MNT/stable")")
is "pages don't change on the way, for it has checksums of them" \
	"$(attr "$device" queue/stable_writes)" 1
detach "$device"
