#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: An image on f2fs holds what its device was given, and I/O to it is
#   direct.
# machines: lts-drop-in
. tests/lib/images.sh

exercise_direct f2fs
