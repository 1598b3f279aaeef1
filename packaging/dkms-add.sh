#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# As DKMS's own packages do; a kernel that floop doesn't know is no error.
version=@VERSION@
dkms add -m floop -v "$version" --rpm_safe_upgrade
dkms autoinstall || true
