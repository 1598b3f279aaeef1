#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: An image on tmpfs holds what its device was given.
# machines: stable-side-by-side
. tests/lib/images.sh

exercise "$(mkimage 12M)"
