#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: Pages in a mapped image's page cache are never older than what was
#   written and flushed on the mapped path. They get there because the driver
#   looks at the content (LOOP_SET_STATUS, LOOP_SET_BLOCK_SIZE on a disk of
#   4096-byte sectors), or by readahead through a descriptor that isn't counted.
# modes: side-by-side
# machines: stable-side-by-side
# timeout: 400
. tests/lib/guard.sh
programs loopdev pattern keeper uncounted

# looked_at WHAT SEED COMMAND... - the command has the driver read the image's
# head. An opener of the image then reads data that was written and flushed
# after that
looked_at() {
	local what=$1 seed=$2
	shift 2
	wait_mapped "$dev"
	check "$fs: $what" "$@"
	check "$fs: $what: a write" \
		pattern write -d -q -b 64k -s "$seed" "$dev" 64k
	check "$fs: $what: read by another" \
		pattern check -q -b 4k -s "$seed" "$image" 64k
}

# written_to N - that many I/Os of the device, either way
written_to() {
	[ $(($(ios "$dev" mapped) + $(ios "$dev" file))) -ge "$1" ]
}

# The pages may be dropped before the read comes.
a_read_goes_through_file() {
	local file
	file=$(ios "$dev" file_cache)
	is "$fs: read ahead" "$(ask willneed 0 64k)" ok
	dd if="$dev" of=/dev/null bs=4k count=1 iflag=direct status=none
	more_ios "$dev" file_cache "$file"
}

disk=$(attach --block-size 4096 "$(mkimage 400M)")
later detach "$disk"
for fs in ext4 xfs; do
	on_disk $fs "$disk"
	image=$MNT/image
	written "$image" 8M 1
	dev=$(attach --direct "$image")
	is "$fs: sectors" "$(attr "$dev" queue/logical_block_size)" 4096
	looked_at "a size limit" 2 \
		loopdev set -s $((4 << 20)) "$dev"
	looked_at "no size limit" 3 loopdev set -s 0 "$dev"
	looked_at "any block size" 4 loopdev sector "$dev" 0
	wait_mapped "$dev"
	goes_mapped "$fs: after that" "$dev"
	detach "$dev"
	unmount "$MNT"
done

for fs in ext4 xfs; do
	begin_fs $fs
	image=$MNT/image
	written "$image" 8M 1
	open_uncounted "$image"
	dev=$(attach "$image")
	for round in 2 3 4; do
		wait_mapped "$dev"
		is "$fs: read ahead" "$(ask willneed 0 64k)" ok
		check "$fs: a write after that" \
			pattern write -d -q -b 64k -s "$round" "$dev" 64k
		check "$fs: read by another" \
			pattern check -q -b 4k -s "$round" "$image" 64k
	done
	# Read ahead all the time, while the device is written to
	for round in 1 2; do
		wait_mapped "$dev"
		begin_writes "$dev" 512k -b 16k -t 4
		echo "flood 0 512k" >&8
		before=$(($(ios "$dev" mapped) + $(ios "$dev" file)))
		wait_until 30 written_to $((before + 200))
		end_writes "$fs: read ahead all the time: round $round"
		echo "willneed 0 4k" >&8
		is "$fs: read ahead" "$(answered) $(answered)" "ok ok"
		check "$fs: read by another" \
			keeper check -b 16k -m "$WORK/model" "$image" 512k
	done
	wait_mapped "$dev"
	wait_until 20 a_read_goes_through_file
	echo "ok: $fs: what is read ahead is noticed at the next read"
	wait_mapped "$dev"
	goes_mapped "$fs: without reading ahead" "$dev"
	detach "$dev"
	close_uncounted
	end_fs
done
