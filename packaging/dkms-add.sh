#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# As DKMS's own packages do
version=@VERSION@
dkms add -m floop -v "$version" --rpm_safe_upgrade
/usr/lib/floop-dkms/build-module
