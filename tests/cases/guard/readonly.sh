#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: Read-only devices of one image are mapped side by side and next to its
#   readers. A writer breaks all of them and they see what it wrote. On xfs a
#   deduplication through a reader's descriptor breaks them too.
# modes: side-by-side
# machines: stable-side-by-side
# timeout: 400
. tests/lib/guard.sh
programs loopdev pattern other

for fs in ext4 xfs; do
	begin_fs "$fs"
	written "$MNT/image" 8M 1
	written "$MNT/same" 4M 1
	exec 9<"$MNT/image"
	devs=()
	for i in 0 1 2; do
		devs[i]=$(attach --read-only "$MNT/image")
	done
	for dev in "${devs[@]}"; do
		wait_mapped "$dev"
		goes_mapped "$fs: $dev" "$dev"
		check "$fs: $dev" pattern check -d -q -s 1 "$dev" 8M
	done
	check "$fs: another reader" pattern check -q -s 1 "$MNT/image" 8M
	for dev in "${devs[@]}"; do
		goes_mapped "$fs: $dev, with what they read in the cache" "$dev"
		is "$fs: $dev: leases broken by readers" "$(broken "$dev")" 0
		# The two other devices, and ours
		is "$fs: $dev: readers" "$(loop_stat "$dev" readers)" 3
	done

	check "$fs: a writer that may not wait" other nonblock rw "$MNT/image"
	for dev in "${devs[@]}"; do
		wait_mapped "$dev"
	done
	check "$fs: a writer" xfs_io -c "fpunch 4m 1m" "$MNT/image"
	written "$MNT/neighbour" 2M 7
	check "$fs: elsewhere" pattern write -q -s 2 -o 5M "$MNT/image" 1M
	for dev in "${devs[@]}"; do
		[ "$(broken "$dev")" -gt 0 ] ||
			fail "$fs: $dev: a writer broke no lease"
		check "$fs: $dev: the hole" cmp -n 1M -i 4M:0 "$dev" /dev/zero
		check "$fs: $dev: what was written" \
			pattern check -d -q -s 2 -o 5M "$dev" 1M
		wait_mapped "$dev" 7
		check "$fs: $dev: mapped again" \
			pattern check -d -q -s 1 "$dev" 4M
		check "$fs: $dev: the hole" cmp -n 1M -i 4M:0 "$dev" /dev/zero
	done

	if [ "$fs" = xfs ]; then
		before=$(broken "${devs[0]}")
		# The destination of a deduplication needs no descriptor to
		# write to: only the right to
		check "xfs: deduplication through a reader's descriptor" \
			xfs_io -r -c "dedupe $MNT/same 0 0 4m" "$MNT/image"
		[ "$(broken "${devs[0]}")" -gt "$before" ] ||
			fail "xfs: a deduplication broke no lease"
		rm "$MNT/neighbour"
		# The image's unshared blocks are free, and others get them
		sync
		free=$(megabytes_free)
		check "xfs: all that is free" \
			pattern write -q -n -s 8 "$MNT/neighbour" \
			$((free - 10))M
		sync
		for dev in "${devs[@]}"; do
			check "$fs: $dev: the image is as it was" \
				pattern check -d -q -s 1 "$dev" 4M
		done
	fi
	exec 9<&-
	detach "${devs[@]}"
	rm -f "$MNT/neighbour"
	end_fs
done
