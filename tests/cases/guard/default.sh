#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: unless told otherwise, images on ext4 and read-only ones on xfs are mapped; one on xfs that is written to is when it is asked for
# modes: side-by-side
# machines: lts-side-by-side
. tests/guest/lib.sh
. tests/programs/lib.sh
. tests/guest/guard.sh
programs loopdev pattern

set_mapping auto
for fs in ext4 xfs; do
	begin_fs "$fs"
	written "$MNT/image" 4M 1
	dev=$(attach --read-only "$MNT/image")
	wait_mapped "$dev"
	goes_mapped "$fs: read-only" "$dev"
	detach "$dev"
	dev=$(attach "$MNT/image")
	if [ "$fs" = xfs ]; then
		is "$fs: written to" "$(attr "$dev" loop/mapping)" 0
		goes_through_file "$fs: written to" "$dev"
		echo 1 >"/sys/block/${dev#/dev/}/loop/mapping"
	fi
	wait_mapped "$dev"
	goes_mapped "$fs: written to, mapping on" "$dev"
	detach "$dev"
	end_fs
done
