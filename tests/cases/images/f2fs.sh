#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: an image on f2fs holds what its device was given, and is served by direct I/O
# machines: lts-drop-in
. tests/lib/images.sh

exercise_direct f2fs
