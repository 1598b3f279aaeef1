#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: Without leases (fs.leases-enable=0) nothing is mapped, and with them
#   again it is. A lease that is held when they are turned off is still broken
#   by openers.
# modes: side-by-side
# machines: lts-side-by-side
# timeout: 400
. tests/lib/guard.sh
programs loopdev pattern

later sysctl -q fs.leases-enable=1
for fs in ext4 xfs; do
	begin_fs "$fs"
	sysctl -q fs.leases-enable=0
	written "$MNT/image" 4M 1
	dev=$(attach "$MNT/image")
	wait_until 20 grep -q "grants no lease" \
		"/sys/block/${dev#/dev/}/loop/mapped_reason"
	goes_through_file "$fs: without leases" "$dev"
	check "$fs: what it reads" pattern check -d -q -s 1 "$dev" 4M
	sysctl -q fs.leases-enable=1
	wait_mapped "$dev"
	# A lease that is held stays: an opener of the image still breaks it
	sysctl -q fs.leases-enable=0
	check "$fs: a hole" xfs_io -c "fpunch 0 1m" "$MNT/image"
	[ "$(broken "$dev")" -gt 0 ] || fail "$fs: no lease was broken"
	check "$fs: a hole" cmp -n 1M "$dev" /dev/zero
	sysctl -q fs.leases-enable=1
	detach "$dev"
	end_fs
done
