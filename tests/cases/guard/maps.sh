#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: A written image on ext4 and xfs is mapped as a whole, also if it
#   doesn't end with a chunk of the fill. Reads and writes go straight to the
#   disk, and the file has what was written. With mapping off nothing is mapped.
# modes: side-by-side
# machines: stable-side-by-side
# timeout: 400
. tests/lib/guard.sh
programs loopdev pattern

for fs in ext4 xfs; do
	begin_mapped "$fs" 17M
	is "$fs: why not" "$(attr "$dev" loop/mapped_reason)" mapped
	[ "$(loop_stat "$dev" mapped_extents)" -gt 0 ] || fail "no extents"
	goes_mapped "$fs: reads" "$dev"
	echo 0 >"/sys/block/${dev#/dev/}/queue/iostats"
	goes_mapped "$fs: reads without statistics" "$dev"
	echo 1 >"/sys/block/${dev#/dev/}/queue/iostats"
	check "$fs: what it reads" pattern check -d -q -s 1 "$dev" 17M
	file=$(ios "$dev" file)
	mapped=$(ios "$dev" mapped)
	check "$fs: writes" pattern write -d -q -b 64k -s 2 -o 1M "$dev" 8M
	check "$fs: small ones" \
		pattern write -d -q -b 512 -s 3 -o 10M "$dev" 16k
	check "$fs: buffered ones" pattern write -q -b 64k -s 4 -o 12M "$dev" 1M
	is "$fs: writes and flushes through the file system" \
		"$(($(ios "$dev" file) - file))" 0
	more_ios "$dev" mapped $((mapped + 100)) ||
		fail "only $(ios "$dev" mapped) I/Os mapped"
	is "$fs: leases broken by it" "$(broken "$dev")" 0

	for range in "1 0 1M" "2 1M 8M" "1 9M 1M" "3 10M 16k" "1 11M 1M" \
		"4 12M 1M" "1 13M 4M"; do
		read -r seed at size <<<"$range"
		check "$fs: the file, while attached, at $at" \
			pattern check -q -b 16k -s "$seed" -o "$at" \
			"$MNT/image" "$size"
	done
	wait_mapped "$dev"
	[ "$fs" = xfs ] || [ "$(broken "$dev")" -gt 0 ] ||
		fail "a reader broke no lease"

	echo 0 >"/sys/block/${dev#/dev/}/loop/mapping"
	is "$fs: turned off" \
		"$(attr "$dev" loop/mapped) $(loop_stat "$dev" mapped_bytes)" \
		"0 0"
	goes_through_file "$fs: turned off" "$dev"
	echo 1 >"/sys/block/${dev#/dev/}/loop/mapping"
	wait_mapped "$dev"
	goes_mapped "$fs: turned on again" "$dev"
	detach "$dev"
	drop_caches
	for range in "1 0 1M" "2 1M 8M" "3 10M 16k" "4 12M 1M"; do
		read -r seed at size <<<"$range"
		check "$fs: the file, detached, at $at" \
			pattern check -q -b 16k -s "$seed" -o "$at" \
			"$MNT/image" "$size"
	done
	end_fs
done
