#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# kernel-install's plugin: COMMAND KERNEL ...
[ "$1" != add ] || exec /usr/lib/floop-dkms/build-module "$2"
