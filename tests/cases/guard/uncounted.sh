#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: The image's owner opens it, before the attach, for neither reading nor
#   writing, which isn't counted as an opener. A deduplication into the image
#   through this descriptor moves no block under mapped I/O. Neither inode flags
#   nor EXT4_IOC_MIGRATE leave wrong data.
# modes: side-by-side
# machines: stable-side-by-side lts-side-by-side
# timeout: 400
. tests/lib/guard.sh
programs loopdev pattern uncounted

# begin_uncounted [-u UID] NAME SIZE SEED [attach-option]... - an image, opened
# like that, then attached and mapped: $dev
begin_uncounted() {
	local who=()
	if [ "$1" = -u ]; then
		who=(-u "$2")
		shift 2
	fi
	image=$MNT/$1
	[ -e "$image" ] || written "$image" "$2" "$3"
	[ ${#who[@]} = 0 ] || chown "${who[1]}" "$image"
	sync
	open_uncounted "${who[@]}" "$image"
	dev=$(attach "${@:4}" "$image")
	wait_mapped "$dev"
}

end_uncounted() {
	detach "$dev"
	close_uncounted
	rm "$image"
}

# unshared - no block of the image is shared any more
unshared() {
	for _ in {1..5}; do
		check "$fs: $how: nothing is shared" \
			xfs_io -c "funshare 0 8m" "$image"
		! (wait_until 10 maps "$dev" $((8 << 20))) || return 0
	done
}

# takes_blocks - uid 1000 gives up the blocks of the first half of the image,
# which others get
takes_blocks() {
	local broken
	written "$MNT/same" 4M 1
	chown 1000 "$MNT/same"
	fill_up 2
	broken=$(broken "$dev")
	is "$fs: $how: deduplication by its owner" \
		"$(ask dedupe "$MNT/same" 0 0 4M)" ok
	others_file 4
	check "$fs: $how: the device has none of it" \
		pattern check -d -q -s 1 "$dev" 8M
	rm "$MNT/filler"
	if [ "$how" = read-write ]; then
		check "$fs: $how: written" pattern write -d -q -s 2 "$dev" 4M
		others_file_is_right "$fs: $how"
		check "$fs: $how: so is what was shared" \
			pattern check -q -s 1 "$MNT/same" 4M
		check "$fs: $how: what the device has" \
			pattern check -d -q -s 2 "$dev" 4M
	fi
	[ "$(broken "$dev")" -gt "$broken" ] ||
		fail "$fs: $how: a deduplication broke no lease"
	rm "$MNT/others" "$MNT/same"
	unshared
	wait_mapped "$dev"
	goes_mapped "$fs: $how: with the descriptor there" "$dev"
}

# waits_for_writes - a deduplication waits for the mapped write in flight
waits_for_writes() {
	local mapped writer
	written "$MNT/same" 64k 2
	chown 1000 "$MNT/same"
	sync
	wait_mapped "$dev"
	udev_settle
	mapped=$(ios "$dev" mapped)
	dmsetup suspend --noflush --nolockfs below
	pattern write -d -n -q -b 64k -s 3 "$dev" 64k &
	writer=$!
	wait_until 20 more_ios "$dev" mapped "$mapped"
	echo "dedupe $MNT/same 0 0 64k" >&8
	wait_until 20 waits_in "$uncounted" \
		'inode_dio_wait\|__break_lease\|xfs_ilock'
	kill -0 "$writer" || fail "$fs: $how: the write did not hang"
	dmsetup resume below
	wait "$writer" || fail "$fs: $how: the write failed"
	is "$fs: $how: compared with what is written" "$(answered)" differs
	check "$fs: $how: it is there" pattern check -q -b 64k -s 3 "$image" 64k
	rm "$MNT/same"
}

# flag LETTER - set through the descriptor: nothing is mapped from there on
flag() {
	local mapped content=1
	wait_mapped "$dev"
	udev_settle
	mapped=$(ios "$dev" mapped)
	is "$fs: +$1 through the descriptor" "$(ask set "$1")" ok
	# The file system may refuse the write
	! pattern write -d -q -b 64k -s 2 "$dev" 64k || content=2
	is "$fs: +$1: I/O that was mapped" $(($(ios "$dev" mapped) - mapped)) 0
	not_mapped "the file needs its file system"
	is "$fs: -$1 through the descriptor" "$(ask clear "$1")" ok
	wait_mapped "$dev"
	check "$fs: +$1: the device" \
		pattern check -d -q -b 64k -s $content "$dev" 64k
	check "$fs: +$1: the file" \
		pattern check -q -b 64k -s $content "$image" 64k
	check "$fs: +$1: as it was" pattern write -d -q -s 1 "$dev" 64k
}

fs=xfs
begin_tight_xfs 1
later dmsetup resume below
for how in read-write read-only; do
	if [ $how = read-only ]; then
		begin_uncounted -u 1000 image 8M 1 --read-only
	else
		begin_uncounted -u 1000 image 8M 1
	fi
	takes_blocks
	[ $how = read-only ] || waits_for_writes
	end_uncounted
done
begin_uncounted image 8M 1
flag i
flag a
end_uncounted
end_fs

# ext4 heeds chattr +j only without delayed allocation
fs=ext4
begin_fs $fs -b 4096
unmount "$MNT"
mount -o nodelalloc /dev/mapper/below "$MNT"
# EXT4_IOC_MIGRATE, of a file that is small enough, and in one piece
written "$MNT/small" 48k 4
chattr -e "$MNT/small"
begin_uncounted -u 1000 small 48k 4
is "$fs: EXT4_IOC_MIGRATE through the descriptor" "$(ask migrate)" ok
matches "$fs: extents" "$(lsattr "$image")" "*e*$image"
check "$fs: what it has" pattern check -d -q -s 4 "$dev" 48k
check "$fs: written" pattern write -d -q -s 5 "$dev" 48k
wait_mapped "$dev"
goes_mapped "$fs: with extents" "$dev"
drop_caches
check "$fs: the file" pattern check -q -s 5 "$image" 48k
end_uncounted

begin_uncounted image 8M 1
flag i
flag a
udev_settle
mapped=$(ios "$dev" mapped)
is "$fs: +j through the descriptor" "$(ask set j)" ok
check "$fs: +j: written" pattern write -d -q -s 3 "$dev" 4M
is "$fs: +j: I/O that was mapped" $(($(ios "$dev" mapped) - mapped)) 0
not_mapped "the file needs its file system"
is "$fs: -j through the descriptor" "$(ask clear j)" ok
wait_mapped "$dev"
check "$fs: +j: the device" pattern check -d -q -s 3 "$dev" 4M
drop_caches
check "$fs: +j: the file" pattern check -q -s 3 "$image" 4M
end_uncounted
end_fs
