#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: A write to blocks that an image on xfs shares waits for a mapped read
#   that is on its way to one of them: it gives up the image's share of the
#   blocks. A write elsewhere, if only to the next block, doesn't wait. But it
#   does for a mapped write that drops pages: one may have both blocks. The
#   sixth read at once is seen, too.
# modes: side-by-side
# machines: stable-side-by-side
# module: debug
# timeout: 120
. tests/lib/guard.sh
load_debug
programs loopdev pattern

# has_own BYTES - so much is the image's own, and the rest is for reads only
has_own() {
	[ "$(loop_stat "$dev" mapped_shared_bytes)" = $(((16 << 20) - $1)) ]
}

begin_fs xfs
written "$MNT/image" 16M 1
cp --reflink=always "$MNT/image" "$MNT/clone"
sync
dev=$(attach "$MNT/image")
wait_until 30 maps "$dev" $((16 << 20))
# One write before: the file system has read what it needs
check "a write" pattern write -d -n -q -b 4k -s 2 -o 1M "$dev" 4k
wait_until 30 has_own 4096
wait_until 30 maps "$dev" $((16 << 20))

# held_up WINDOW COMMAND... - in the background, on its way, as $held
held_up() {
	udev_settle
	window 60000 "$1"
	"${@:2}" &
	held=$!
	wait_until 20 in_window "$1"
}

# read_at OFFSET BYTES
read_at() {
	dd if="$dev" of="$WORK/read" bs="$2" count=1 skip=$(($1 / $2)) \
		iflag=direct status=none
}

# write_behind OFFSET BYTES - has to wait for what is held up
write_behind() {
	rm -f "$WORK/written"
	{
		pattern write -d -n -q -b "$2" -s 3 -o "$1" "$dev" "$2"
		touch "$WORK/written"
	} &
	writer=$!
	sleep 2
	kill -0 "$held" || fail "nothing was held up"
	[ ! -e "$WORK/written" ] || fail "the write did not wait"
	window 0
	wait "$held" || fail "what was held up failed"
	wait $writer || fail "the write failed"
	check "what was written" pattern check -d -q -b "$2" -s 3 -o "$1" \
		"$dev" "$2"
}

# The block that was written before is the image's own
held_up END pattern write -d -n -q -b 4k -s 4 -o 1M "$dev" 4k
write_behind $(((1 << 20) + 4096)) 512
check "the mapped write" pattern check -d -q -b 4k -s 4 -o 1M "$dev" 4k

held_up SUBMIT read_at $((2 << 20)) 4096
check "a write to another part of the file" \
	pattern write -d -n -q -b 4k -s 3 -o 9M "$dev" 4k
check "a write to the next block" \
	pattern write -d -n -q -b 4k -s 3 -o $(((2 << 20) + 4096)) "$dev" 4k
write_behind $((2 << 20)) 4096
check "and next to it" pattern check -d -q -b 4k -s 3 \
	-o $(((2 << 20) + 4096)) "$dev" 4k
check "and elsewhere" pattern check -d -q -b 4k -s 3 -o 9M "$dev" 4k

# The sixth read at once: a part of the file has slots for four
reads=()
udev_settle
window 60000 SUBMIT
# are_held NR - do so many tasks wait in a window?
are_held() {
	[ "$(grep -ls floop_window /proc/[0-9]*/stack | wc -l)" = "$1" ]
}
for block in {0..5}; do
	read_at $(((6 << 20) + (block << 16))) 4096 &
	reads+=($!)
	wait_until 20 are_held ${#reads[@]}
done
held=${reads[5]}
write_behind $(((6 << 20) + (5 << 16))) 4096
wait "${reads[@]}"

# A part of a block
held_up SUBMIT read_at $((4 << 20)) 512
write_behind $(((4 << 20) + 1024)) 512
drop_caches
check "the clone" pattern check -q -s 1 "$MNT/clone" 16M
detach "$dev"
end_fs
