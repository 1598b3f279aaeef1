#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: Pages that the device's own page cache writes back are merged into
#   large writes to the image. Each lands where it belongs, and nothing lands
#   between pages that aren't adjacent. A write with FUA stays one by itself. If
#   the disk fails one of them, the others are still written.
# modes: side-by-side
# machines: stable-side-by-side
. tests/lib/case.sh
programs loopdev pattern

# Mapped I/O is merged by the disk's driver, not by ours.
set_mapping 0
begin_tracing
echo 1 >"$tracing/events/floop/floop_io_join/enable"

# joined - the number of sectors in merged writes; fails if one of these is
# larger than 1 MiB
joined() {
	sed -n 's/.* floop_io_join: .* op=1 .*sectors=//p' "$tracing/trace" |
		awk '$1 > 2048 { exit 1 } { n += $1 } END { print n + 0 }'
}

for fs in $(file_systems xfs); do
	on_disk "$fs"
	for how in direct buffered; do
		# The device's size is no multiple of 2 KiB, so the blocks of
		# its page cache have 1 KiB, and so have its writes.
		truncate -s 4097K "$MNT/image"
		dev=$(loop_attach "$how" "$MNT/image")
		echo >"$tracing/trace"
		pattern write -q -s 1 "$dev" 4M
		n=$(joined)
		[ "$n" -ge 4096 ] ||
			fail "$fs, $how: of 8192 sectors $n were merged"
		loopdev detach "$dev"
		drop_caches
		is "$fs, $how: $n of 8192 sectors merged; the image" \
			"$(pattern check -q -s 1 "$MNT/image" 4M &&
			echo right)" right
		rm "$MNT/image"
	done
	unmount "$MNT"
done

# Every other block, many at once: nothing is next to another
on_disk ext4
pattern write -q -s 3 "$WORK/model" 4M
cp "$WORK/model" "$MNT/image"
for how in direct buffered; do
	dev=$(loop_attach "$how" "$MNT/image")
	byte=0x$((RANDOM % 90 + 10))
	for target in "$WORK/model" "$dev"; do
		engine="--ioengine=libaio --direct=1 --iodepth=32 --iodepth_batch=16"
		[ "$target" = "$dev" ] || engine=--ioengine=psync
		# shellcheck disable=SC2086
		check "$how: every other block of ${target##*/}" \
			fio --name=gaps \
			--filename="$target" $engine --rw=write:4k --bs=4k \
			--size=4M --io_size=2M --buffer_pattern=$byte \
			--allow_file_create=0 --output="$WORK/fio"
	done
	loopdev detach "$dev"
	drop_caches
	check "$how: the others are as they were" cmp "$WORK/model" "$MNT/image"
done

# Every second one with FUA, in one submission: the disk gets each of these
dev=$(loop_attach direct "$MNT/image")
# ext4 writes with FUA only what needs no commit. To an inode that it has just
# read it is as if the running transaction had changed it (ext4_iget()).
sync -f "$MNT/image"
reached "with FUA and without" "WF" python3 tests/lib/aio.py "$dev" A 16
[ "$n" -ge 8 ] || fail "of 8 writes with FUA the disk got $n"
loopdev detach "$dev"
check "with FUA and without: all are there" \
	cmp -n 64K "$MNT/image" <(head -c 64K /dev/zero | tr '\0' A)
unmount "$MNT"

# A disk of 2 MiB with a bad page in the middle
disk=$(the_disk 1)
dd if=/dev/zero of="$disk" bs=1M count=2 oflag=direct status=none
dmsetup create bad <<-END
	0 2048 linear $disk 0
	2048 8 error
	2056 2040 linear $disk 2056
END
later dm_remove bad
for how in direct buffered; do
	dev=$(loop_attach "$how" /dev/mapper/bad)
	echo >"$tracing/trace"
	status=0
	out=$(pattern write -q -s 2 "$dev" 2M) || status=$?
	is "$how: a bad page: writing" "$status" 3
	matches "$how: a bad page: writing" "$out" "EIO *"
	[ "$(joined)" -ge 2048 ] ||
		fail "$how: of 4096 sectors in order $(joined) were merged"
	loopdev detach "$dev"
	drop_caches
	is "$how: before the bad page" \
		"$(pattern check -q -d -s 2 "$disk" 1M && echo right)" right
	is "$how: behind it" \
		"$(pattern check -q -d -s 2 -o 1052672 "$disk" 1020K &&
		echo right)" right
	dd if=/dev/zero of="$disk" bs=1M count=2 oflag=direct status=none
done
