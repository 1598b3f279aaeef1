#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: A hole isn't known if a write to it was in flight when the file system
#   was asked, or has begun since; and only in its epoch. Breaking the rule that
#   a write takes its range out of the holes returns zeroes for what was
#   written. A read of 8 MiB of a hole has zeroes, too.
# modes: side-by-side
# machines: stable-side-by-side
# timeout: 400
# module: debug
. tests/lib/guard.sh
load_debug
programs pattern

# write_to MEGABYTES SEED
write_to() {
	pattern write -d -n -q -b 4k -s "$2" -o "$1M" "$dev" 4k
}

# reads_back MEGABYTES SEED
reads_back() {
	pattern check -d -q -b 4k -s "$2" -o "$1M" "$dev" 4k
}

# one_read POSITION - of 8 MiB into huge pages, a bio each at most: zeroes
one_read() {
	python3 - "$dev" $((${1%M} << 20)) <<-'END'
		import mmap, os, sys
		HUGETLB = 0x40000
		flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | HUGETLB
		memory = mmap.mmap(-1, 8 << 20, flags=flags)
		memory[:] = b"x" * len(memory)
		device = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
		read = os.preadv(device, [memory], int(sys.argv[2]))
		sys.exit(read != len(memory) or any(memory[:]))
	END
}

huge=/proc/sys/vm/nr_hugepages
later eval "echo 0 >$huge"
echo 4 >$huge
is "huge pages" "$(<$huge)" 4

# begin_sparse MILLISECONDS - with the fill waiting that long after a question,
# and now after the first one
begin_sparse() {
	mkimage 16M "$MNT/image" >/dev/null
	window "$1" FILL
	dev=$(attach "$MNT/image")
	# A chunk is mapped without the fill.
	allocate "$dev" off
	[ "$1" = 0 ] || wait_until 20 in_window FILL
}

for fs in $(file_systems xfs); do
	begin_fs "$fs"

	# A write between the file system's answer and its use. It is read
	# before the fill, which waits each time, has mapped it.
	begin_sparse 3000
	check "$fs: a write after the answer" write_to 5 1
	wait_until 20 reads_hole 4M 4096
	is "$fs: mapped by then" "$(loop_stat "$dev" mapped_bytes)" 0
	check "$fs: is read" reads_back 5 1
	window 0
	wait_until 20 maps "$dev" 4096
	check "$fs: and read when it is mapped" reads_back 5 1
	wait_until 20 reads_hole 1M 4096
	echo "ok: $fs: the rest of the hole is known later"
	# Through the file system, as zeroing takes time
	wait_until 20 reads_hole 8M 4096
	check "$fs: one read of 8 MiB" one_read 8M
	detach "$dev"

	# Data that isn't mapped yet, in the first half of a granule of 8 KiB
	mkimage 12G "$MNT/image" >/dev/null
	pattern write -q -b 4k -s 5 -o 1M "$MNT/image" 4k
	window 3000 FILL
	dev=$(attach "$MNT/image")
	wait_until 20 reads_hole 1032k 4096
	is "$fs: mapped by then" "$(loop_stat "$dev" mapped_bytes)" 0
	check "$fs: data beside a hole" reads_back 1 5
	window 0
	detach "$dev"

	# Others write: what was a hole isn't one in the next epoch
	begin_sparse 0
	wait_until 20 reads_hole 9M 4096
	window 20000 FILL
	check "$fs: another's write" \
		pattern write -q -b 4k -s 4 -o 9M "$MNT/image" 4k
	wait_until 20 mapped "$dev"
	wait_until 20 in_window FILL
	check "$fs: is read in the next epoch" reads_back 9 4
	is "$fs: mapped by then" "$(loop_stat "$dev" mapped_bytes)" 0
	window 0
	detach "$dev"

	# A write that is in flight when the file system is asked: its blocks
	# are unwritten until it ends. The fill waits before the first of two
	# holes, and asks about the second one when the write is on its way.
	# What has been asked for then is asked for again.
	begin_sparse 0
	wait_until 20 reads_hole 1M 4096
	window 20000 FILL
	write_to 3 1
	wait_until 20 in_window FILL
	below_takes 0 3000 0
	write_to 7 2 &
	writer=$!
	sleep 1
	window 0
	wait "$writer"
	check "$fs: a write that was in flight" reads_back 7 2
	below_takes 0 0 0
	wait_until 20 reads_hole 1M 4096
	wait_until 20 reads_hole 12M 4096
	echo "ok: $fs: then holes are known all over the image"
	detach "$dev"

	# The rule, broken
	begin_sparse 0
	wait_until 20 reads_hole 1M 4096
	window 20000 FILL
	break_rules HOLES
	write_to 9 3
	! reads_back 9 3 >/dev/null 2>&1 ||
		fail "$fs: HOLES is broken, and the write is read"
	echo "ok: $fs: HOLES is broken: the write isn't read"
	break_rules
	window 0
	detach "$dev"
	end_fs
done
