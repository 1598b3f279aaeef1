#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: A mapped device under constant writes gets another offset, another
#   size, buffered I/O and direct again, larger sectors, and (read-only) another
#   image. What it maps afterwards is right each time.
# modes: side-by-side
# machines: lts-side-by-side
# timeout: 400
. tests/lib/guard.sh
programs loopdev pattern keeper

for fs in $(file_systems xfs); do
	begin_mapped "$fs" 8M
	begin_writes "$dev" 4M -b 16k
	loopdev direct "$dev" 0
	is "$fs: buffered" "$(attr "$dev" loop/mapped_reason)" \
		"I/O to the image is not direct"
	file=$(ios "$dev" file)
	wait_until 20 more_ios "$dev" file $((file + 10))
	loopdev direct "$dev" 1
	wait_mapped "$dev"
	truncate -s 12M "$MNT/image"
	loopdev capacity "$dev"
	is "$fs: larger" "$(blockdev --getsize64 "$dev")" $((12 << 20))
	end_writes "$fs: nothing was lost"
	check "$fs: written behind the old end" \
		pattern write -d -q -s 2 -o 8M "$dev" 4M
	wait_mapped "$dev"
	check "$fs: and read" pattern check -d -q -s 2 -o 8M "$dev" 4M
	loopdev sector "$dev" 4096
	wait_mapped "$dev"
	goes_mapped "$fs: with larger sectors" "$dev"
	detach "$dev"
	check "$fs: in the file" keeper check -b 16k -m "$WORK/model" \
		"$MNT/image" 4M
	check "$fs: in the file" pattern check -q -s 2 -o 8M "$MNT/image" 4M

	# Another offset, while attached
	rm "$MNT/image"
	written "$MNT/image" 8M 1
	dev=$(attach "$MNT/image")
	wait_mapped "$dev"
	loopdev set -o $((1 << 20)) "$dev"
	wait_mapped "$dev"
	cmp -n 7M -i 0:1M "$dev" "$MNT/image" ||
		fail "$fs: the offset makes no difference"
	wait_mapped "$dev"
	goes_mapped "$fs: at another offset" "$dev"
	check "$fs: written at another offset" \
		pattern write -d -q -s 3 "$dev" 1M
	detach "$dev"
	check "$fs: before it" pattern check -q -s 1 "$MNT/image" 1M
	check "$fs: behind it" pattern check -q -s 1 -o 2M "$MNT/image" 6M

	# Another image
	written "$MNT/image" 8M 1
	written "$MNT/second" 8M 2
	dev=$(attach --read-only "$MNT/image")
	wait_mapped "$dev"
	loopdev change "$dev" "$MNT/second"
	wait_mapped "$dev"
	goes_mapped "$fs: another image" "$dev"
	check "$fs: what it reads" pattern check -d -q -s 2 "$dev" 8M
	check "$fs: the first one is free again" sh -c "rm '$MNT/image'"
	detach "$dev"
	end_fs
done
