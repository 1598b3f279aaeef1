#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: an image on btrfs holds what its device was given, and is served by direct I/O
# machines: lts-side-by-side stable-drop-in
. tests/guest/lib.sh
. tests/guest/images.sh

exercise_direct btrfs
