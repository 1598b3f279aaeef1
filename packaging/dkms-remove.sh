#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# $1 is 0 at the removal, and 1 at an upgrade.
dkms remove -m floop -v "@VERSION@" --all --rpm_safe_upgrade || true
[ "$1" != 0 ] || rm -rf /var/lib/floop-dkms
