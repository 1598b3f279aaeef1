#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: Flushes and FUA writes of a mapped device reach the disk as such,
#   without the file system. After a write, discard or write-zeroes through the
#   file system the next flush goes through it too, even if another flush was
#   under way at the time of the write; but not after a FUA write, which is
#   durable by then. I/Os through the file system are as many as those of all
#   causes.
# modes: side-by-side
# machines: stable-side-by-side
# timeout: 400
. tests/lib/guard.sh
programs loopdev pattern

begin_tracing
mkdir "$tracing/instances/file"
later rmdir "$tracing/instances/file"
writes=$tracing/instances/file/events/floop/floop_io_file
# REQ_OP_* that write, discards and flushes too, are odd
echo 'opf & 1' >"$writes/filter"
echo 1 >"$writes/enable"
# This counts I/Os, and udev reads a device that was written to. dmsetup makes
# links with its help
carve "$(the_disk 1)" below 0 700
without_udev

# by_file - writes, discards and flushes through the file system so far
by_file() {
	grep -c floop_io_file: "$tracing/instances/file/trace" || true
}

more_by_file() {
	[ "$(by_file)" -gt "$1" ]
}

for fs in $(file_systems xfs); do
	begin_fs "$fs"
	written "$MNT/image" 8M 1
	# After a hole of 4 MiB
	pattern write -q -s 1 -o 12M "$MNT/image" 4M
	dev=$(attach "$MNT/image")
	wait_mapped "$dev" 12
	pattern write -d -q -s 2 "$dev" 1M
	file=$(by_file)
	reached "$fs: fsync" "F" pattern write -d -q -s 2 "$dev" 1M
	reached "$fs: O_DSYNC" "WF" pattern write -d -a -n -q -b 64k \
		-s 3 "$dev" 1M
	[ "$n" -ge 16 ] || fail "$fs: of 16 writes with FUA, $n had it"
	reached "$fs: of the page cache" "F" pattern write -q -s 4 "$dev" 1M
	is "$fs: of that through the file system" \
		"$(($(by_file) - file))" 0

	# Into a hole
	file=$(by_file)
	reached "$fs: fsync of what was a hole" "(WF|F)" pattern write -d -q \
		-b 64k -s 5 -o 8M "$dev" 64k
	is "$fs: of that through the file system" \
		"$(($(by_file) - file))" 2
	wait_mapped "$dev" 12
	file=$(by_file)
	reached "$fs: fsync after that" "F" pattern write -d -q -s 6 "$dev" 1M
	is "$fs: of that through the file system" \
		"$(($(by_file) - file))" 0

	# A write that is durable wants no fsync
	file=$(by_file)
	check "$fs: O_DSYNC into a hole: FUA, and a flush" \
		pattern write -d -a -n -q -b 64k -s 6 -o 8448k "$dev" 64k
	is "$fs: of both through the file system" "$(($(by_file) - file))" 1
	wait_mapped "$dev" 12

	# A write during a flush is covered by the next one
	below_takes 0 0 2000
	check "$fs: into a hole" \
		pattern write -d -n -q -b 64k -s 7 -o 9M "$dev" 64k
	file=$(by_file)
	sync "$dev" &
	flusher=$!
	wait_until 20 more_by_file "$file"
	sleep 0.5
	check "$fs: into a hole meanwhile" \
		pattern write -d -n -q -b 64k -s 8 -o 10M "$dev" 64k
	wait "$flusher" || fail "$fs: fsync"
	below_takes 0 0 0
	wait_mapped "$dev" 12
	file=$(by_file)
	sync "$dev"
	is "$fs: of the fsync after that through the file system" \
		"$(($(by_file) - file))" 1

	# The disk's flush doesn't make changes of the file's blocks durable
	for zeroes in "" -z; do
		file=$(by_file)
		check "$fs: blkdiscard $zeroes" \
			blkdiscard -f $zeroes -o 8M -l 64k "$dev"
		# While blocks change, and a moment after, all goes by the file
		wait_until 20 reads mapped 0 4096
		reached "$fs: fsync after that" "(WF|F)" sync "$dev"
		is "$fs: of both through the file system" \
			"$(($(by_file) - file))" 2
	done
	is "$fs: counted as discards" "$(ios "$dev" file_discard)" 2
	is "$fs: counted without a cause" "$(awk '/^ios_file / { n += $2 }
		/^ios_file_/ { n -= $2 }
		END { print n }' "/sys/block/${dev#/dev/}/loop/stat")" 0
	detach "$dev"
	end_fs
done
