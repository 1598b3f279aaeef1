#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: An image on ext4 holds what its device was given, and I/O to it is
#   direct.
# machines: lts-side-by-side stable-drop-in
. tests/lib/images.sh

exercise_direct ext4
