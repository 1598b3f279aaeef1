#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: an image on btrfs holds what its device was given, and is served by direct I/O
# machines: lts-side-by-side stable-drop-in
. tests/guest/lib.sh
. tests/guest/images.sh

on_disk btrfs
exercise "$(mkimage 12M "$MNT/image")"

device=$(attach --direct "$(mkimage 4M "$MNT/another")")
is_direct "$device" 1
detach "$device"
