#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: An I/O that the file system does one block at a time completes as a
#   whole, each block where it belongs, with other I/O between them. So does a
#   read that a FUSE server answers short. What fits on a tmpfs is written. A
#   worker that leaves its lane with I/O in it is woken again.
# modes: side-by-side
# machines: stable-side-by-side
# module: debug
. tests/lib/case.sh
programs loopdev pattern ackio passthrough
seed

load_debug
set_mapping 0
for fs in $(file_systems xfs); do
	on_disk "$fs"
	image=$MNT/image
	for how in direct buffered; do
		what="$fs, $how"
		pattern write -q -s 1 "$image" 8M
		dev=$(loop_attach "$how" "$image")
		udev_settle
		window 0 SHORT PASSES
		check "$what: what is there" \
			pattern check -q -d -b 256k -s 1 "$dev" 8M
		for size in 512 20k 1M; do
			check "$what: in pieces of $size" \
				pattern write -q -d -b "$size" -s 2 \
				-o 1M "$dev" 2M
			check "$what: in pieces of $size: read back" \
				pattern check -q -d -b "$size" -s 2 \
				-o 1M "$dev" 2M
			window 0
			check "$what: in pieces of $size: as it is" \
				pattern check -q -d -s 2 -o 1M "$dev" 2M
			window 0 SHORT PASSES
			check "$what: written over" \
				pattern write -q -d -b 60k -s 3 -o 1M "$dev" 2M
		done
		check "$what: by the page cache" \
			pattern write -q -s 4 -o 4M "$dev" 2M
		check "$what: many at once" fio --name=many --filename="$dev" \
			--direct=1 --ioengine=libaio --iodepth=32 --bs=16k \
			--rw=randwrite --offset=6M --size=2M --io_size=4M \
			--norandommap --buffer_pattern=0x37 --output="$WORK/fio"
		window 0
		check "$what: before it" pattern check -q -d -s 1 "$dev" 1M
		check "$what: between" pattern check -q -d -s 3 -o 1M "$dev" 2M
		check "$what: after" pattern check -q -d -s 1 -o 3M "$dev" 1M
		check "$what: of the page cache" \
			pattern check -q -d -s 4 -o 4M "$dev" 2M
		rm -f "$WORK/state"
		dd if=/dev/zero of="$dev" bs=1M count=8 oflag=direct \
			conv=fsync status=none
		window 0 SHORT PASSES
		echo "$what: at random:" \
			"$(ackio run "$dev" 200 "$SEED" "$WORK/state")"
		window 0
		check "$what: all versions are right" \
			ackio check "$dev" "$WORK/state"
		loopdev detach "$dev"
	done
	unmount "$MNT"
done

# A FUSE server whose reads have 4 KiB at most
on_disk ext4
mkimage 8M "$MNT/image" >/dev/null
served "$MNT/image" -d -s
for how in direct buffered; do
	dev=$(loop_attach "$how" "$WORK/fuse/image")
	check "FUSE, $how: writes" pattern write -q -d -b 60k -s 5 "$dev" 4M
	check "FUSE, $how: by the page cache" \
		pattern write -q -s 6 -o 4M "$dev" 4M
	check "FUSE, $how: reads" pattern check -q -d -b 256k -s 5 "$dev" 4M
	loopdev detach "$dev"
	check "FUSE, $how: the file" pattern check -q -s 5 "$MNT/image" 4M
	check "FUSE, $how: the file" pattern check -q -s 6 -o 4M "$MNT/image" 4M
	dd if=/dev/zero of="$MNT/image" bs=1M count=8 conv=notrunc status=none
done

# A write is done up to where the file system is full
mkdir "$WORK/tmpfs"
mount_at tmpfs "$WORK/tmpfs" -t tmpfs -o size=5000k
mkimage 8M "$WORK/tmpfs/image" >/dev/null
dev=$(attach "$WORK/tmpfs/image")
status=0
out=$(pattern write -d -b 64k -s 7 "$dev" 8M) || status=$?
is "tmpfs: exit status when it is full" "$status" 3
matches "tmpfs: when it is full" "$out" "ENOSPC write *"
upto=${out##* }
[ "$upto" -ge $((4 << 20)) ] || fail "tmpfs: $upto bytes fit"
check "tmpfs: what was written is there" \
	pattern check -d -b 4k -s 7 "$dev" "$upto"
loopdev detach "$dev"
