#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: In a kernel whose xfs breaks no layout leases (built without
#   CONFIG_EXPORTFS_BLOCK_OPS) no image on xfs is mapped, and an image on ext4
#   is.
# modes: side-by-side
# machines: stable-side-by-side
# module: debug
. tests/lib/guard.sh
load_debug
programs loopdev pattern

window 0 LAYOUTS
for fs in xfs ext4; do
	begin_fs "$fs"
	written "$MNT/image" 4M 1
	dev=$(attach "$MNT/image")
	case $fs in
	xfs) not_mapped "grants no lease" ;;
	ext4) wait_mapped "$dev" ;;
	esac
	check "$fs: what it reads" pattern check -d -q -s 1 "$dev" 4M
	detach "$dev"
	end_fs
done
