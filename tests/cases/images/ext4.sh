#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: an image on ext4 holds what its device was given, and is served by direct I/O
# machines: lts-side-by-side stable-drop-in
. tests/lib/images.sh

exercise_direct ext4
