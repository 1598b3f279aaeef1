# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# For the cases in guard/: `. tests/guest/guard.sh` after lib.sh and programs/lib.sh.

map_images

# begin_fs ext4|xfs [MKFS-OPTION]... - on a part of the first disk, /dev/mapper/below: $MNT
begin_fs() {
	local fs=$1 keep
	shift
	[ -e /dev/mapper/below ] || carve "$(the_disk 1)" below 0 700
	if [ "$fs" = ext4 ]; then keep=(-E nodiscard); else keep=(-K); fi
	make_fs "$fs" /dev/mapper/below "${keep[@]}" "$@"
	FS=$fs
	MNT=$WORK/$fs
	mount_at /dev/mapper/below "$MNT"
}

# end_fs - and the file system is clean
end_fs() {
	unmount "$MNT"
	check "$FS below is clean" fsck_of "$FS" /dev/mapper/below
}

# written PATH SIZE SEED - a file without holes, of that pattern, on the disk
written() {
	pattern write -q -s "$3" "$1" "$2"
}

# fragmented FILE MEGABYTES - in pieces of 64k, with another file's between them
fragmented() {
	local i
	: >"$1"
	: >"$1.other"
	for ((i = 0; i < $2 * 16; i++)); do
		printf 'file 0\npwrite -q %dk 64k\nfsync\nfile 1\npwrite -q %dk 64k\nfsync\n' $((i * 64)) $((i * 64))
	done | xfs_io -d "$1" "$1.other" >/dev/null
	rm "$1.other"
}

mapped() {
	[ "$(attr "$1" loop/mapped)" = 1 ]
}

unmapped() {
	! mapped "$1"
}

# maps DEVICE BYTES - its map has as much, and holds
maps() {
	mapped "$1" && [ "$(loop_stat "$1" mapped_bytes)" -ge "$2" ]
}

# wait_mapped DEVICE [MEGABYTES] - all of the image, unless told
wait_mapped() {
	local bytes
	bytes=$(($(blockdev --getsize64 "$1")))
	[ $# -lt 2 ] || bytes=$(($2 << 20))
	(wait_until 30 maps "$1" "$bytes") ||
		fail "$1 is not mapped: $(grep . "/sys/block/${1#/dev/}"/loop/{mapped*,stat} 2>&1)"
}

# begin_mapped FS SIZE - a file system with a written image (seed 1), attached and mapped: $MNT/image, $dev
begin_mapped() {
	begin_fs "$1"
	written "$MNT/image" "$2" 1
	dev=$(attach "$MNT/image")
	wait_mapped "$dev"
}

# ios DEVICE mapped|file - how many went that way
ios() {
	loop_stat "$1" "ios_$2"
}

broken() {
	loop_stat "$1" epochs_broken
}

begun() {
	loop_stat "$1" epochs_begun
}

# breaks WHAT COMMAND... - the lease on the image of $dev, once all of it is mapped; $fs: where
breaks() {
	local what=$1 before
	shift
	wait_mapped "$dev"
	before=$(broken "$dev")
	check "$fs: $what" "$@"
	[ "$(broken "$dev")" -gt "$before" ] || fail "$fs: $what: the lease was not broken"
}

# nothing_lands OFFSET SIZE - of a write to the device, in the blocks that the image had there and that others get now. $fs
nothing_lands() {
	local free
	# What is free is taken, what was cut off with it
	sync
	free=$(($(stat -f -c '%a * %S' "$MNT") >> 20))
	check "$fs: a file in its place" fallocate -l $((free - 12))M "$MNT/filler"
	check "$fs: and another" written "$MNT/neighbour" 8M 7
	sync
	pattern write -d -q -b 64k -s 2 -o "$1" "$dev" "$2" || true
	drop_caches
	check "$fs: the neighbour has nothing of the image" pattern check -q -s 7 "$MNT/neighbour" 8M
}

# more_ios DEVICE mapped|file THAN
more_ios() {
	[ "$(ios "$1" "$2")" -gt "$3" ]
}

# begin_writes DEVICE SIZE [keeper-option]... - with as many in flight as it has threads; what must be there is in
# $WORK/model
begin_writes() {
	local device=$1 size=$2
	shift 2
	rm -f "$WORK/model" "$WORK/keeper"
	keeper write "$@" -m "$WORK/model" "$device" "$size" >"$WORK/keeper" 2>&1 &
	keeper=$!
	later stop_writes $keeper
	wait_until 20 grep -q began "$WORK/keeper"
}

# stop_writes PID - if they go on because the case has failed
stop_writes() {
	[ ! -e "/proc/$1" ] || kill "$1" 2>/dev/null
	wait "$1" 2>/dev/null || true
}

# end_writes WHAT - none failed, and the device holds what it must
end_writes() {
	kill -TERM "$keeper" || fail "$1: $(cat "$WORK/keeper")"
	wait "$keeper" || fail "$1: $(cat "$WORK/keeper")"
	echo "ok: $1: $(tail -n 1 "$WORK/keeper")"
}

# flushes - that the first disk has got (Documentation/block/stat.rst)
flushes() {
	local disk
	disk=$(the_disk 1)
	awk '{ print $16 }' "/sys/block/${disk#/dev/}/stat"
}

# goes WHAT DEVICE WAY OTHER - reads of the whole device take one path, and none the other
goes() {
	local way other
	way=$(ios "$2" "$3")
	other=$(ios "$2" "$4")
	dd if="$2" of=/dev/null bs=64k iflag=direct status=none
	more_ios "$2" "$3" "$way" || fail "$1: no I/O is counted as $3"
	is "$1: I/O counted as $4" "$(($(ios "$2" "$4") - other))" 0
}

# goes_mapped WHAT DEVICE - reads of the whole device take the mapped path, all of them
goes_mapped() {
	goes "$@" mapped file
}

# goes_through_file WHAT DEVICE
goes_through_file() {
	goes "$@" file mapped
}

# waits_in PID FUNCTION - that process, in the kernel
waits_in() {
	grep -q "$2" "/proc/$1/stack" 2>/dev/null
}

waits_or_is_gone() {
	[ ! -e "/proc/$1" ] || waits_in "$@"
}

# thaw WHERE - if it is frozen
thaw() {
	fsfreeze -u "$1" 2>/dev/null || true
}

# begin_tracing - $tracing, until the case ends. With one CPU only: with two, QEMU's emulation may run into an int3 that the
# kernel puts into its code for a moment, to turn a tracepoint on, when it isn't there any more
begin_tracing() {
	[ "$(nproc)" = 1 ] || fail "tracing with more than one CPU: see begin_tracing()"
	mount_at none "$WORK/tracing" -t tracefs
	# shellcheck disable=SC2034 # the cases use it
	tracing=$WORK/tracing
	later trace_off
}

trace_off() {
	echo 0 >"$tracing/events/enable"
	echo >"$tracing/trace"
}

# fua_writes DEVICE - what makes an O_DSYNC write to it durable on the first disk by
# itself: flushes and writes with FUA, before the flush that the kernel sends after it
fua_writes() {
	local disk
	disk=$(the_disk 1)
	echo >"$tracing/trace"
	echo 1 >"$tracing/events/block/block_bio_queue/enable"
	echo 1 >"$tracing/events/block/block_rq_issue/enable"
	dd if=/dev/zero of="$1" bs=4k count=1 oflag=direct,dsync conv=notrunc status=none
	echo 0 >"$tracing/events/block/enable"
	awk -v device=": $(tr : , <"/sys/block/${1#/dev/}/dev") " -v disk=": $(tr : , <"/sys/block/${disk#/dev/}/dev") " '
		/block_bio_queue/ && index($0, device "WF") { inside = 1 }
		/block_bio_queue/ && index($0, device "F") { inside = 0 }
		inside && /block_rq_issue/ && (index($0, disk "F") || index($0, disk "WF")) { n++ }
		END { print n + 0 }' "$tracing/trace"
}

# open_uncounted [-u UID] PATH - through a descriptor that is neither for reading
# nor for writing, and is counted in neither: see uncounted.c. $uncounted: who
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

# not_mapped WHY - neither now nor later, and I/O goes through the file
not_mapped() {
	wait_until 20 grep -q "$1" "/sys/block/${dev#/dev/}/loop/mapped_reason"
	sleep 0.3
	goes_through_file "$fs: $1" "$dev"
}

# megabytes_free - where the file system is
megabytes_free() {
	echo $(($(stat -f -c '%a * %S' "$MNT") >> 20))
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

# rebind DISK N - with N queues to poll, which nvme makes when it begins
rebind() {
	local name=${1#/dev/} pci
	pci=$(basename "$(readlink -f "/sys/block/$name/device/device")")
	echo "$2" >/sys/module/nvme/parameters/poll_queues
	echo "$pci" >/sys/bus/pci/drivers/nvme/unbind
	echo "$pci" >/sys/bus/pci/drivers/nvme/bind
	wait_until 30 test -b "$1"
	udev_settle
}

# poll_queues DISK - it has one, until the case ends
poll_queues() {
	later rebind "$1" 0
	rebind "$1" 1
}
