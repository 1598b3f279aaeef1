# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
# Mapped images: checks of the mapping, and of what ends it. Sourcing this file
# turns mapping on.
[ -z "${GUARD_SH-}" ] || return 0
GUARD_SH=1
. tests/lib/case.sh
. tests/lib/nfs.sh
. tests/lib/others.sh
. tests/lib/writes.sh

map_images

# begin_fs ext4|xfs [MKFS-OPTION]... - on a part of the first disk,
# /dev/mapper/below: $MNT
begin_fs() {
	local fs=$1 keep
	shift
	[ -e /dev/mapper/below ] || carve "$(the_disk 1)" below 0 700
	if [ "$fs" = ext4 ]; then keep=(-E nodiscard); else keep=(-K); fi
	make_fs "$fs" /dev/mapper/below "${keep[@]}" "$@"
	FS=$fs
	MNT=$WORK/$fs
	mount_at /dev/mapper/below "$MNT"
	# ext4lazyinit would hold s_umount while the disk hangs.
	[ "$fs" != ext4 ] || mount -o remount,noinit_itable "$MNT"
}

# below_takes READS WRITES FLUSHES - milliseconds, on the disk below
below_takes() {
	local where target
	where=$(dmsetup table below | awk '{ print $4, $5 }')
	target="delay $where $1 $where $2 $where $3"
	[ "$*" != "0 0 0" ] || target="linear $where"
	echo "0 $(sectors /dev/mapper/below) $target" | dmsetup reload below
	dmsetup suspend --nolockfs below
	dmsetup resume below
}

# end_fs - and the file system is clean
end_fs() {
	unmount "$MNT"
	check "$FS below is clean" fsck_of "$FS" /dev/mapper/below
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
		fail "$1 is not mapped:" \
			"$(grep . "/sys/block/${1#/dev/}"/loop/{mapped*,stat} 2>&1)"
}

# wait_unshared MEGABYTES - until so much of $dev's image is mapped that has
# shared blocks and shares none now. The driver has xfs look after 10 s, and
# ever more rarely; xfs frees removed files in the background.
wait_unshared() {
	(wait_until 100 maps "$dev" $(($1 << 20))) || true
	wait_mapped "$dev" "$1"
}

# maps_nothing - $dev is not mapped, or with an empty map
maps_nothing() {
	[ "$(loop_stat "$dev" mapped_bytes)" = 0 ]
}

# begin_mapped FS SIZE - a file system with a written image (seed 1), attached
# and mapped: $MNT/image, $dev
begin_mapped() {
	begin_fs "$1"
	written "$MNT/image" "$2" 1
	dev=$(attach "$MNT/image")
	wait_mapped "$dev"
}

# ios DEVICE mapped|file - the number of I/Os on that path
ios() {
	loop_stat "$1" "ios_$2"
}

# more_ios DEVICE mapped|file THAN
more_ios() {
	[ "$(ios "$1" "$2")" -gt "$3" ]
}

# reads mapped|holes POSITION SIZE - a direct read of $dev, to $WORK/read, takes
# that path
reads() {
	local before
	before=$(ios "$dev" "$1")
	dd if="$dev" of="$WORK/read" bs="$3" count=1 skip="$2" \
		iflag=direct,skip_bytes status=none &&
		more_ios "$dev" "$1" "$before"
}

# reads_hole POSITION SIZE - it is answered as one of a hole, with zeroes
reads_hole() {
	reads holes "$1" "$2" && cmp -n "$2" "$WORK/read" /dev/zero
}

# reads_shared [BLOCK] - a read of that block of $dev, or the first one, counts
# as one of a file that shares blocks: the driver knows
reads_shared() {
	local before
	before=$(ios "$dev" file_shared)
	dd if="$dev" of=/dev/null bs=4k count=1 skip="${1:-0}" iflag=direct \
		status=none
	more_ios "$dev" file_shared "$before"
}

broken() {
	loop_stat "$1" epochs_broken
}

begun() {
	loop_stat "$1" epochs_begun
}

# writes_go_on WHAT - a write to $dev waits for nobody
writes_go_on() {
	check "$1" timeout 60 dd if=/dev/zero of="$dev" bs=4k count=1 \
		seek=1024 oflag=direct status=none
}

# breaks WHAT COMMAND... - the lease on the image of $dev, once all of it is
# mapped; $fs: where
breaks() {
	local what=$1 before
	shift
	wait_mapped "$dev"
	before=$(broken "$dev")
	check "$fs: $what" "$@"
	[ "$(broken "$dev")" -gt "$before" ] ||
		fail "$fs: $what: the lease was not broken"
}

# reads_file WHAT COMMAND... - which opens the image to read: the lease is
# broken on ext4, and not on xfs
reads_file() {
	local before
	if [ "$fs" = ext4 ]; then
		breaks "$@"
		return
	fi
	wait_mapped "$dev"
	before=$(broken "$dev")
	check "$fs: $1" "${@:2}"
	is "$fs: $1: leases broken" "$(broken "$dev")" "$before"
}

# goes WHAT DEVICE WAY OTHER - reads of the whole device take one path, and none
# the other
goes() {
	local way other
	way=$(ios "$2" "$3")
	other=$(ios "$2" "$4")
	dd if="$2" of=/dev/null bs=64k iflag=direct status=none
	more_ios "$2" "$3" "$way" || fail "$1: no I/O is counted as $3"
	is "$1: I/O counted as $4" "$(($(ios "$2" "$4") - other))" 0
}

# goes_mapped WHAT DEVICE - reads of the whole device take the mapped path, all
# of them
goes_mapped() {
	goes "$@" mapped file
}

# goes_through_file WHAT DEVICE
goes_through_file() {
	goes "$@" file mapped
}

# not_mapped WHY - neither now nor later, and I/O goes through the file
not_mapped() {
	wait_until 20 grep -q "$1" "/sys/block/${dev#/dev/}/loop/mapped_reason"
	sleep 0.3
	goes_through_file "$fs: $1" "$dev"
}
