#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: A sparse image on a full file system, or of an owner who is over quota,
#   gives ENOSPC to direct writes and to the file system above. What was written
#   before is intact. Once there is space again, all works.
# modes: side-by-side
# machines: stable-side-by-side
# timeout: 400
. tests/lib/case.sh
programs loopdev pattern

disk=$(the_disk 1)
carve "$disk" tiny 0 340

acknowledged() {
	# "ENOSPC write 12345"
	local word
	read -ra word <<<"$1"
	echo "${word[2]}"
}

# above_is_right WHAT SEED OTHER - the file system on the device is clean, and
# has its older file and the one that was written when there was space again
above_is_right() {
	unmount "$WORK/above"
	check "$1: the file system above is clean" fsck.ext4 -fn "$dev"
	mount "$dev" "$WORK/above"
	check "$1: the older file is right" \
		pattern check -s "$2" "$WORK/above/old" 2M
	check "$1: the newer file is right" \
		pattern check -s "$3" "$WORK/above/again" 4M
	unmount "$WORK/above"
}

# Each kernel with one half of the combinations
hows="ext4:direct xfs:buffered"
[ "$KERNEL" != lts ] || hows="ext4:buffered xfs:direct"
for pair in $hows; do
	IFS=: read -r fs how <<<"$pair"
	make_fs "$fs" /dev/mapper/tiny
	mkdir -p "$WORK/$fs"
	mount /dev/mapper/tiny "$WORK/$fs"
	image=$(mkimage 96M "$WORK/$fs/image")
	free=$(($(stat -f -c '%f * %S' "$WORK/$fs") >> 20))
	fallocate -l $((free - 10))M "$WORK/$fs/filler"

	# The bare device
	dev=$(loop_attach "$how" "$image")
	status=0
	out=$(pattern write -d -b 256k -s 7 "$dev" 96M) || status=$?
	is "$fs $how: exit status at the end of space" "$status" 3
	matches "$fs $how: direct writes" "$out" "ENOSPC write *"
	upto=$(acknowledged "$out")
	[ "$upto" -gt $((1 << 20)) ] || fail "only $upto bytes fit"
	check "$fs $how: what was written is right" \
		pattern check -d -b 4k -s 7 "$dev" "$upto"
	status=0
	out=$(pattern write -s 8 -o 32M "$dev" 24M) || status=$?
	is "$fs $how: exit status of buffered writes" "$status" 3
	# the page cache of a block device knows one error only
	matches "$fs $how: buffered writes" "$out" "@(ENOSPC|EIO) *"
	check "$fs $how: what was written is still right" \
		pattern check -d -b 4k -s 7 "$dev" "$upto"
	rm "$WORK/$fs/filler"
	check "$fs $how: with space again, writes work" \
		pattern write -d -s 9 -o 32M "$dev" 4M
	check "$fs $how: and buffered ones" pattern write -s 10 -o 64M "$dev" 4M
	check "$fs $how: the image is right" \
		pattern check -s 9 -o 32M "$image" 4M
	check "$fs $how: the image is right" \
		pattern check -s 10 -o 64M "$image" 4M
	check "$fs $how: the oldest data is right" \
		pattern check -b 4k -s 7 "$dev" "$upto"
	loopdev detach "$dev"

	# A file system on it. Its own structures are written while there is
	# space: this case is about data only.
	mkimage 96M "$image" >/dev/null
	dev=$(loop_attach "$how" "$image")
	make_fs ext4 "$dev" -O ^has_journal -E nodiscard,lazy_itable_init=0
	mkdir -p "$WORK/above"
	mount "$dev" "$WORK/above"
	check "$fs $how: a file above" pattern write -s 11 "$WORK/above/old" 2M
	touch "$WORK/above/new" "$WORK/above/newer"
	sync
	free=$(($(stat -f -c '%f * %S' "$WORK/$fs") >> 20))
	fallocate -l $((free - 8))M "$WORK/$fs/filler"
	status=0
	out=$(pattern write -d -s 12 "$WORK/above/new" 24M) || status=$?
	is "$fs $how: exit status above, direct" "$status" 3
	matches "$fs $how: direct writes above" "$out" "ENOSPC write *"
	status=0
	out=$(pattern write -s 13 "$WORK/above/newer" 24M) || status=$?
	is "$fs $how: exit status above, buffered" "$status" 3
	matches "$fs $how: buffered writes above" "$out" "ENOSPC *"
	rm "$WORK/$fs/filler"
	check "$fs $how: the older file is right" \
		pattern check -d -s 11 "$WORK/above/old" 2M
	check "$fs $how: with space again, a file above" \
		pattern write -s 14 "$WORK/above/again" 4M
	above_is_right "$fs $how" 11 14
	loopdev detach "$dev"
	rm "$image"
	unmount "$WORK/$fs"
	check "$fs below is clean" fsck_of "$fs" /dev/mapper/tiny
done

# The image's owner is over quota, not the writer
make_fs xfs /dev/mapper/tiny
mkdir -p "$WORK/quota"
mount_at /dev/mapper/tiny "$WORK/quota" -o uquota
image=$(mkimage 96M "$WORK/quota/image")
chown 1000 "$image"
check "a quota" xfs_quota -x -c "limit bhard=16m 1000" "$WORK/quota"
dev=$(loop_attach direct "$image")
status=0
out=$(pattern write -d -b 256k -s 15 "$dev" 96M) || status=$?
is "over quota: exit status" "$status" 3
matches "over quota: direct writes" "$out" "ENOSPC write *"
check "over quota: what was written is right" \
	pattern check -d -b 4k -s 15 "$dev" "$(acknowledged "$out")"
check "over quota: a larger one" \
	xfs_quota -x -c "limit bhard=60m 1000" "$WORK/quota"
check "over quota: with space again, writes work" \
	pattern write -d -s 16 -o 40M "$dev" 4M
check "over quota: the image is right" pattern check -s 16 -o 40M "$image" 4M

# A file system above
make_fs ext4 "$dev" -O ^has_journal -E nodiscard,lazy_itable_init=0
mount "$dev" "$WORK/above"
check "over quota: a file above" pattern write -s 17 "$WORK/above/old" 2M
touch "$WORK/above/new"
sync
check "over quota: no more" xfs_quota -x -c \
	"limit bhard=$(($(du -k "$image" | cut -f 1) + 4096))k 1000" \
	"$WORK/quota"
status=0
out=$(pattern write -s 18 "$WORK/above/new" 40M) || status=$?
is "over quota: exit status above" "$status" 3
matches "over quota: writes above" "$out" "@(ENOSPC|EIO) *"
check "over quota: a larger one" \
	xfs_quota -x -c "limit bhard=0 1000" "$WORK/quota"
check "over quota: with space again, a file above" \
	pattern write -s 19 "$WORK/above/again" 4M
above_is_right "over quota" 17 19
loopdev detach "$dev"
unmount "$WORK/quota"
