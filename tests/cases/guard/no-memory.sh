#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: Without memory for a lease, the image is not mapped until there is
#   some. Without memory for mapped I/O, as much is mapped as the image's
#   reserve is for, and the rest goes through the file system.
# modes: side-by-side
# debug: only
. tests/lib/guard.sh
. tests/lib/faults.sh
programs loopdev pattern

begin_faults
# The lists of free entries are empty.
load_module "$MODULE_FILE"

for fs in ext4 xfs; do
	begin_fs "$fs"
	later dmsetup resume below
	written "$MNT/image" 4M 1
	failing_cache file_lease_cache
	dev=$(attach "$MNT/image")
	not_mapped "grants no lease"
	works_again file_lease_cache

	failing_cache floop_remap
	wait_mapped "$dev"
	udev_settle
	mapped=$(ios "$dev" mapped)
	file=$(ios "$dev" file)
	dmsetup suspend --noflush --nolockfs below
	readers=()
	for at in 0 1 2 3 4 5 6 7; do
		pattern check -d -q -b 64k -s 1 -o $((at * 64))k "$dev" 64k &
		readers+=($!)
	done
	wait_until 20 more_ios "$dev" file $((file + 3))
	is "$fs: mapped without memory" $(($(ios "$dev" mapped) - mapped)) 4
	dmsetup resume below
	for reader in "${readers[@]}"; do
		wait "$reader" || fail "$fs: a read"
	done
	is "$fs: all I/O" $(($(ios "$dev" mapped) + $(ios "$dev" file) - \
		mapped - file)) 8
	goes_mapped "$fs: one at a time" "$dev"
	works_again floop_remap
	detach "$dev"
	end_fs
done
