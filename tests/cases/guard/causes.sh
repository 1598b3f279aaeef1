#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: I/O to what isn't mapped is counted by its cause: holes, blocks that
#   were never written, and files on xfs that share blocks. Where the driver
#   can't tell holes from unwritten blocks, the cause says that it doesn't. A
#   discard, write-zeroes and others change what is counted.
# modes: side-by-side
# machines: stable-side-by-side lts-side-by-side
# timeout: 400
. tests/lib/guard.sh
programs loopdev pattern

# causes - "NAME=NUMBER" for each cause of I/O through the file
causes() {
	local all
	all=$(<"/sys/block/${dev#/dev/}/loop/stat")
	all=${all#*$'\n'ios_file_}
	all=${all%%$'\n'broken_at *}
	all=${all//ios_file_/}
	echo "${all// /=}"
}

# counts_as CAUSE COMMAND... - it is one I/O through the file, of that cause
counts_as() {
	local before number
	before=$(causes)
	number=${before#*"$1="}
	number=${number%%[!0-9]*}
	"${@:2}" &&
		[ "$(causes)" = "${before/"$1=$number"/"$1=$((number + 1))"}" ]
}

# counted WHAT CAUSE COMMAND...
counted() {
	counts_as "${@:2}" || fail "$fs: $1: is not counted as $2:" "$(causes)"
	echo "ok: $fs: $1: counted as $2"
}

# write_at POSITION [SIZE]
write_at() {
	pattern write -d -n -q -b "${2:-4k}" -s 3 -o "$1" "$dev" "${2:-4k}"
}

# comes_to CAUSE POSITION - writes from there on soon count as that; the first
# one is at $at
comes_to() {
	at=$2
	while ! counts_as "$1" write_at "$at"; do
		at=$((at + 4096))
		[ "$at" -lt $(($2 + (1 << 20))) ] ||
			fail "$fs: at $2: nothing counts as $1:" "$(causes)"
		sleep 0.1
	done
	echo "ok: $fs: at $2: counts as $1"
}

# begin_image - 4 MiB of data, a hole of 4 MiB, and as much unwritten
begin_image() {
	rm -f "$MNT/image"
	written "$MNT/image" 4M 1
	truncate -s 32M "$MNT/image"
	fallocate -o 8M -l 4M "$MNT/image"
	sync
}

for fs in ext4 xfs; do
	begin_fs "$fs"
	hole=hole unwritten=unwritten
	begin_image
	# In the chunk after these, half a hole and half unwritten
	fallocate -o 14M -l 2M "$MNT/image"
	dev=$(attach "$MNT/image")
	allocate "$dev" off
	# What is mapped was looked up together with the rest
	wait_mapped "$dev" 4
	udev_settle
	counted "a hole" $hole write_at 5M
	counted "beside it" $hole write_at 5124k
	counted "unwritten" $unwritten write_at 9M
	counted "beside it" $unwritten write_at 9220k
	counted "a hole in a mixed chunk" empty write_at 13M
	counted "unwritten in a mixed chunk" empty write_at 15M
	counted "from a hole into unwritten" empty \
		write_at $(((8 << 20) - 32768)) 64k
	counted "two chunks of a hole" $hole \
		write_at $(((20 << 20) - 32768)) 64k
	counted "beyond all that" $hole write_at 31M
	mapped=$(ios "$dev" mapped)
	check "$fs: data" write_at 1M
	is "$fs: and it is mapped" "$(($(ios "$dev" mapped) - mapped))" 1
	# Chunks are looked up again after a write
	wait_until 20 maps "$dev" $(((4 << 20) + 7 * 4096 + 2 * 65536))
	counted "a hole, looked up again" $hole write_at 6M
	counted "unwritten, looked up again" $unwritten write_at 10M

	# The driver changes it
	udev_settle
	before=$(ios "$dev" file_unwritten)
	check "$fs: a discard" blkdiscard -o 8M -l 4M "$dev"
	comes_to $hole $((11 << 20))
	is "$fs: counted as what it was" \
		"$(($(ios "$dev" file_unwritten) - before))" 0
	check "$fs: of data" blkdiscard -o 0 -l 4M "$dev"
	wait_until 20 reads_hole $((1 << 20)) 4096
	comes_to $hole $((1 << 20))
	check "$fs: zeroes" blkdiscard -z -o 16M -l 8M "$dev"
	comes_to $unwritten $((17 << 20))
	comes_to $unwritten $((21 << 20))

	# Others change it
	check "$fs: another's fallocate" fallocate -o 24M -l 4M "$MNT/image"
	check "$fs: another's punch" fallocate -p -o 16M -l 4M "$MNT/image"
	wait_until 20 mapped "$dev"
	comes_to $unwritten $((25 << 20))
	comes_to $hole $((18 << 20))
	is "$fs: counted as shared" "$(ios "$dev" file_shared)" 0
	detach "$dev"

	# Data in more places than the file system is asked about one by one. In
	# the second chunk it is asked for a list, if it can be.
	for by in "" "$EXTENTS_HELPER"; do
		set_helper "$by"
		between=empty
		[ -z "$by" ] || between=$hole
		rm "$MNT/image"
		truncate -s 12M "$MNT/image"
		pattern write -q -b 4k -k 16k -s 1 "$MNT/image" 8M
		sync
		dev=$(attach "$MNT/image")
		allocate "$dev" off
		wait_until 20 maps "$dev" $((512 * 4096))
		udev_settle
		counted "between data in many places, by '$by'" \
			"$between" write_at 4104k
		counted "behind them" $hole write_at 9M
		detach "$dev"
	done

	# The device begins within the file
	begin_image
	dev=$(attach --offset 5M "$MNT/image")
	allocate "$dev" off
	comes_to $hole 4096
	comes_to $unwritten $((4 << 20))
	detach "$dev"
	dev=$(attach --offset $(((5 << 20) + 512)) "$MNT/image")
	allocate "$dev" off
	comes_to $hole $(((1 << 20) + 512))
	detach "$dev"

	# An I/O while somebody else has the image
	dev=$(attach "$MNT/image")
	allocate "$dev" off
	wait_mapped "$dev" 4
	udev_settle
	exec 9<>"$MNT/image"
	wait_until 20 unmapped "$dev"
	counted "a hole, not mapped" epoch write_at 31M
	exec 9<&-
	detach "$dev"
	[ "$fs" = ext4 ] || break
	end_fs
done

# A file that shares blocks: none of its data is mapped. What isn't data is
# counted as elsewhere.
begin_image
set_helper ""
cp --reflink=always "$MNT/image" "$MNT/clone"
dev=$(attach "$MNT/image")
allocate "$dev" off
wait_until 20 mapped "$dev"
comes_to hole $((5 << 20))
udev_settle
# What udev read before the driver knew
blocks=$(ios "$dev" file_blocks)
# Now and then the driver looks whether blocks are still shared, and nothing is
# mapped meanwhile
shared_read() {
	counts_as shared dd if="$dev" of=/dev/null bs=64k count=1 \
		iflag=direct status=none
}
wait_until 20 counts_as shared write_at 1M
wait_until 20 shared_read
comes_to unwritten $((9 << 20))
comes_to hole $((20 << 20))
wait_until 20 counts_as shared write_at "$at"
is "xfs: mapped of it" "$(loop_stat "$dev" mapped_bytes)" 0
is "xfs: counted as blocks" "$(ios "$dev" file_blocks)" "$blocks"
rm "$MNT/clone"
sync
wait_unshared 4
check "xfs: a read of its data" reads mapped 0 65536
counted "a hole" hole write_at 30M
detach "$dev"
end_fs
