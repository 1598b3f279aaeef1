#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: A write to blocks that an image on xfs shares waits for a mapped read
#   that is on its way to one of them: it gives up the image's share of the
#   blocks. A write elsewhere, if only to the next block, doesn't wait. But it
#   does for a mapped write that drops pages: one may have both blocks.
# modes: side-by-side
# machines: stable-side-by-side
# module: debug
# timeout: 120
. tests/lib/guard.sh
load_debug
programs loopdev pattern

begin_fs xfs
written "$MNT/image" 16M 1
cp --reflink=always "$MNT/image" "$MNT/clone"
sync
dev=$(attach "$MNT/image")
wait_until 30 maps "$dev" $((16 << 20))
# One write before: the file system has read what it needs
check "a write" pattern write -d -n -q -b 4k -s 2 -o 1M "$dev" 4k
wait_until 30 maps "$dev" $((16 << 20))

# Reads $1 bytes at $2, which is held up on its way
read_slowly() {
	udev_settle
	window 60000 SUBMIT
	dd if="$dev" of="$WORK/read" bs="$1" count=1 skip=$(($2 / $1)) \
		iflag=direct status=none &
	reader=$!
	wait_until 20 in_window SUBMIT
}

# Writes $1 bytes at $2, which has to wait for the read
write_behind() {
	rm -f "$WORK/written"
	{
		pattern write -d -n -q -b "$1" -s 3 -o "$2" "$dev" "$1"
		touch "$WORK/written"
	} &
	writer=$!
	sleep 2
	kill -0 $reader || fail "the read did not wait"
	[ ! -e "$WORK/written" ] || fail "the write did not wait for the read"
	window 0
	wait $reader || fail "the read"
	wait $writer || fail "the write"
	check "what was written" pattern check -d -q -b "$1" -s 3 -o "$2" \
		"$dev" "$1"
}

# The block that was written before is the image's own
udev_settle
window 60000 END
pattern write -d -n -q -b 4k -s 4 -o 1M "$dev" 4k &
first=$!
wait_until 20 in_window END
{
	pattern write -d -n -q -b 512 -s 3 -o 1028k "$dev" 512
	touch "$WORK/written"
} &
writer=$!
sleep 2
kill -0 $first || fail "the mapped write has ended"
[ ! -e "$WORK/written" ] || fail "the write beside it did not wait"
window 0
wait $first || fail "the mapped write"
wait $writer || fail "the write beside it"
check "the mapped write" pattern check -d -q -b 4k -s 4 -o 1M "$dev" 4k
check "beside it" pattern check -d -q -b 512 -s 3 -o 1028k "$dev" 512

read_slowly 4096 $((2 << 20))
check "a write to another part of the file" \
	pattern write -d -n -q -b 4k -s 3 -o 9M "$dev" 4k
check "a write to the next block" \
	pattern write -d -n -q -b 4k -s 3 -o $(((2 << 20) + 4096)) "$dev" 4k
write_behind 4096 $((2 << 20))
check "and next to it" pattern check -d -q -b 4k -s 3 \
	-o $(((2 << 20) + 4096)) "$dev" 4k
check "and elsewhere" pattern check -d -q -b 4k -s 3 -o 9M "$dev" 4k

# A part of a block
read_slowly 512 $((4 << 20))
write_behind 512 $(((4 << 20) + 1024))
drop_caches
check "the clone" pattern check -q -s 1 "$MNT/clone" 16M
detach "$dev"
end_fs
