#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# A kernel, or its headers, are being installed. A package that is removed, but
# not purged, leaves this hook.
build=/usr/lib/floop-dkms/build-module
[ ! -x $build ] || exec $build "$1"
