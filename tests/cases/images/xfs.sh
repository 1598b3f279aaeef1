#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: an image on xfs holds what its device was given, and is served by direct I/O
# machines: lts-drop-in stable-side-by-side
. tests/guest/lib.sh
. tests/guest/images.sh

on_disk xfs
exercise "$(mkimage 12M "$MNT/image")"

device=$(attach --direct "$(mkimage 4M "$MNT/another")")
is_direct "$device" 1
detach "$device"
