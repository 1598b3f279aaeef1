# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
# Other users of an image and of its file system: who has it open uncounted (see
# tests/programs/uncounted.c), and who gets blocks that it has lost.
[ -z "${OTHERS_SH-}" ] || return 0
OTHERS_SH=1
# shellcheck source=/dev/null
. tests/lib/case.sh
# shellcheck source=/dev/null
. tests/lib/writes.sh

# open_uncounted [-u UID] PATH - through a descriptor that is neither for
# reading nor for writing, and is counted in neither: see uncounted.c.
# $uncounted: who
open_uncounted() {
	mkfifo "$WORK/say" "$WORK/hear"
	uncounted "$@" <"$WORK/say" >"$WORK/hear" &
	uncounted=$!
	later stop_writes $uncounted
	exec 8>"$WORK/say" 9<"$WORK/hear"
	rm "$WORK/say" "$WORK/hear"
	[ "$(answered)" = open ] || fail "$*: can't be opened uncounted"
}

# answered - to the last that was said
answered() {
	local said
	read -r -u 9 said || fail "who has the uncounted descriptor is gone"
	echo "$said"
}

# ask WORD... - to be done through it; prints the answer
ask() {
	echo "$*" >&8
	answered
}

close_uncounted() {
	exec 8>&- 9<&-
	wait "$uncounted" || fail "who had the uncounted descriptor failed"
}

# begin_tight_xfs - a file system of which others get each block that is free:
# nothing is kept in reserve, next to nothing for the file system's own use
begin_tight_xfs() {
	[ -e /dev/mapper/below ] || carve "$(the_disk 1)" below 0 320
	begin_fs xfs -m reflink=1,rmapbt=0,finobt=0
	xfs_io -x -c "resblks 0" "$MNT" >/dev/null
}

# fill_up MEGABYTES - but for so many: what is free beyond that is what somebody
# gave up
fill_up() {
	check "a full disk" fallocate -l $(($(megabytes_free) - $1))M \
		"$MNT/filler"
	sync
}

# others_file MEGABYTES - takes every block that is free, that many at least
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
	free=$(($(stat -f -c '%a * %S' "$MNT") >> 20))
	check "$fs: a file in its place" \
		fallocate -l $((free - 12))M "$MNT/filler"
	check "$fs: and another" written "$MNT/neighbour" 8M 7
	sync
	pattern write -d -q -b 64k -s 2 -o "$1" "$dev" "$2" || true
	drop_caches
	check "$fs: the neighbour has nothing of the image" \
		pattern check -q -s 7 "$MNT/neighbour" 8M
}
