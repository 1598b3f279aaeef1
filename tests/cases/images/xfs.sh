#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: an image on xfs holds what its device was given, and is served by direct I/O
# machines: lts-drop-in stable-side-by-side
. tests/lib/images.sh

exercise_direct xfs
