#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: An image on xfs holds what its device was given, and I/O to it is
#   direct.
# machines: lts-drop-in stable-side-by-side
. tests/lib/images.sh

exercise_direct xfs
