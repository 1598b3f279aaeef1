# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
# Other users of an image and of its file system: an uncounted opener (see
# tests/programs/uncounted.c), and the next owner of blocks that it has lost.
[ -z "${OTHERS_SH-}" ] || return 0
OTHERS_SH=1
# shellcheck source=/dev/null
. tests/lib/case.sh
# shellcheck source=/dev/null
. tests/lib/writes.sh

# open_uncounted [-u UID] PATH - through a descriptor that is neither for
# reading nor for writing, and isn't counted: see uncounted.c. $uncounted: the
# process
open_uncounted() {
	mkfifo "$WORK/say" "$WORK/hear"
	uncounted "$@" <"$WORK/say" >"$WORK/hear" &
	uncounted=$!
	later stop_writes $uncounted
	exec 8>"$WORK/say" 9<"$WORK/hear"
	rm "$WORK/say" "$WORK/hear"
	[ "$(answered)" = open ] || fail "$*: can't be opened uncounted"
}

# answered - wait for the answer to the last request
answered() {
	local said
	read -r -u 9 said || fail "the process with the uncounted descriptor is gone"
	echo "$said"
}

# ask WORD... - do that through the descriptor; prints the answer
ask() {
	echo "$*" >&8
	answered
}

close_uncounted() {
	exec 8>&- 9<&-
	wait "$uncounted" || fail "the process with the uncounted descriptor failed"
}

# begin_tight_xfs REFLINK - a file system without reserves, so that other
# files get every free block; REFLINK=0 if files can't share blocks
begin_tight_xfs() {
	[ -e /dev/mapper/below ] || carve "$(the_disk 1)" below 0 320
	begin_fs xfs -m "reflink=$1,rmapbt=0,finobt=0"
	xfs_io -x -c "resblks 0" "$MNT" >/dev/null
}

# fill_up MEGABYTES - leave only that much free: more free space is then space
# that a file has lost
fill_up() {
	check "a full disk" fallocate -l $(($(megabytes_free) - $1))M \
		"$MNT/filler"
	sync
}

# others_file MEGABYTES - takes every free block, at least that many
others_file() {
	sync
	pattern write -d -n -q -b 64k -s 7 "$MNT/others" 1g >"$WORK/out" || true
	matches "others' file" "$(cat "$WORK/out")" "ENOSPC write *"
	sync
	others=$(($(stat -c %s "$MNT/others") / 4096 * 4096))
	[ "$others" -ge $(($1 << 20)) ] ||
		fail "others get no more than $others bytes"
	chmod 600 "$MNT/others"
}

# others_file_is_right WHAT
others_file_is_right() {
	drop_caches
	check "$1: others' file is as it was" \
		pattern check -q -b 4k -s 7 "$MNT/others" "$others"
}

# nothing_lands OFFSET SIZE - of a write to the device, in the blocks that the
# image had there and that others get now. $fs
nothing_lands() {
	local free
	# What is free is taken, what was cut off with it
	sync
	free=$(megabytes_free)
	check "$fs: a file in its place" \
		fallocate -l $((free - 12))M "$MNT/filler"
	check "$fs: and another" written "$MNT/neighbour" 8M 7
	sync
	pattern write -d -q -b 64k -s 2 -o "$1" "$dev" "$2" || true
	drop_caches
	check "$fs: the neighbour has nothing of the image" \
		pattern check -q -s 7 "$MNT/neighbour" 8M
}

# hold_inode FILE - hold its inode's lock for ever: FS_IOC_FIEMAP stores to
# memory that is never provided. queue_chmod then has another wait for it, and
# whoever comes later, behind that
hold_inode() {
	other stuck-fiemap "$1" >"$WORK/said" 2>&1 &
	holder=$!
	wait_until 20 waits_in $holder handle_userfault
}

queue_chmod() {
	chmod 600 "$1" &
	changer=$!
	wait_until 20 waits_in $changer chmod_common
}

# let_go - of the lock, if it is held; whoever waits for it goes on
let_go() {
	[ "${holder-}" ] || return 0
	kill "$holder"
	wait "$holder" || true
	wait "$changer" || fail "${fs-}: the chmod failed"
	holder=
}
