#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: Most memory allocations that may not wait fail, those of the mapped
#   path, of the map, of merged writes and of a cgroup's lanes among them. No
#   I/O fails or goes wrong, and afterwards the image is mapped as before.
# modes: side-by-side
# debug: only
# timeout: 400
. tests/lib/guard.sh
. tests/lib/cgroups.sh
. tests/lib/faults.sh
programs loopdev pattern devfsx
seed

begin_faults
mount_cgroups
make_groups first second

for fs in ext4 xfs; do
	begin_fs "$fs"
	fragmented "$MNT/image" 8
	dev=$(attach "$MNT/image")
	wait_mapped "$dev" 8
	mapped=$(ios "$dev" mapped)
	file=$(ios "$dev" file)
	failing_nowait 70
	check "$fs: mapped" devfsx -f "$MNT/image" -n "$(more 200)" -j 3 \
		-s "$SEED" "$dev"
	failing_nowait 0
	more_ios "$dev" mapped "$mapped" || fail "$fs: no I/O was mapped"
	more_ios "$dev" file "$file" || fail "$fs: all I/O was mapped"
	check "$fs: written again" pattern write -d -q -s 2 "$dev" 8M
	wait_mapped "$dev" 8

	# The map is filled, and what is discarded is removed from it.
	failing_nowait 90
	echo 0 >"/sys/block/${dev#/dev/}/loop/mapping"
	echo 1 >"/sys/block/${dev#/dev/}/loop/mapping"
	wait_until 20 mapped "$dev"
	failing_nowait 0
	wait_mapped "$dev" 8
	failing_nowait 90
	for at in 1 3 5; do
		blkdiscard -o ${at}M -l 64k "$dev"
	done
	failing_nowait 0
	wait_mapped "$dev" 7
	for at in 1 3 5; do
		check "$fs: a discarded range" \
			cmp -n 64K -i ${at}M:0 "$dev" /dev/zero
	done
	check "$fs: another" pattern check -d -q -s 2 -o 6M "$dev" 2M
	detach "$dev"

	# Writes are merged, and belong to a cgroup.
	set_mapping 0
	for group in first second; do
		dev=$(loop_attach direct "$MNT/image")
		# There is memory for a lane, but not for its place.
		failing_nowait_cache radix_tree_node
		check "$fs: a cgroup without lanes" in_group $group \
			pattern write -d -n -q -b 64k -s 3 "$dev" 1M
		works_again radix_tree_node
		failing_nowait 50
		check "$fs: the writes of a cgroup" \
			in_group $group pattern write -q -s 3 "$dev" 8M
		failing_nowait 100
		check "$fs: its reads" in_group $group \
			pattern check -d -q -b 64k -s 3 "$dev" 8M
		failing_nowait 0
		detach "$dev"
	done
	set_mapping 1
	drop_caches
	check "$fs: the image" pattern check -q -s 3 "$MNT/image" 8M
	end_fs
	SEED=$((SEED + 1))
done
