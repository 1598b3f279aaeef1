#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: an image on tmpfs holds what its device was given
# machines: lts-side-by-side stable-side-by-side
. tests/guest/lib.sh
. tests/guest/images.sh

exercise "$(mkimage 12M)"
