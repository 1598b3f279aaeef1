# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# After tests/guest/lib.sh: the programs of this folder, and what the cases that use them share.
: "${PREFIX:?}" "${WORK:?}" "${PROJECT:=$PWD}" "${PROGRAMS:=$PROJECT/build/programs}"

# programs NAME... - built where they run, once: afterwards they are commands
programs() {
	local out=$PROGRAMS name
	make -s -C "$PROJECT/tests/programs" OUT="$out" "${@/#/$out/}" || fail "cannot build $*"
	mkdir -p "$WORK/bin"
	for name; do
		cp "$out/$name" "$WORK/bin/"
	done
	PATH=$WORK/bin:$PATH
}

# loop_attach direct|buffered [loopdev option]... FILE - prints the device
loop_attach() {
	local how=$1 dev
	shift
	case $how in
	direct)
		loopdev attach -d "$@"
		;;
	buffered)
		dev=$(loopdev attach "$@")
		loopdev direct "$dev" 0 || return
		echo "$dev"
		;;
	*) fail "loop_attach: direct or buffered, not $how" ;;
	esac
}

# sectors DEVICE - its size in 512-byte sectors
sectors() {
	blockdev --getsz "$1"
}

# fsck_of FS DEVICE - look at it and repair nothing
fsck_of() {
	case $1 in
	ext4) fsck.ext4 -fn "$2" ;;
	xfs) xfs_repair -n "$2" ;;
	*) fail "fsck_of: what is $1?" ;;
	esac
}

# ours - this is our driver, not the kernel's own
ours() {
	[ "$DRIVER_MODE" != in-tree ]
}

# seed - of this run: $SEED, or a new one; it is printed, so that a failure can be had again
seed() {
	[ -n "${SEED-}" ] || SEED=$((RANDOM * 32768 + RANDOM))
	echo "seed $SEED (SEED=$SEED has the same run again)"
}

# more N [M] - N, or M on the debug kernel, or $LONG times N (LONG=10 make test-debug: ten times as much)
more() {
	if [ -n "${LONG-}" ]; then
		echo $(($1 * LONG))
	elif [ "$KERNEL" = debug ]; then
		echo "${2-$1}"
	else
		echo "$1"
	fi
}

# carve DISK NAME START-MIB SIZE-MIB - a part of a disk as a device of its own: /dev/mapper/NAME
carve() {
	echo "0 $(($4 * 2048)) linear $1 $(($3 * 2048))" | dmsetup create "$2"
	later dm_remove "$2"
}

# dm_remove NAME - udev may look at it for a moment yet
dm_remove() {
	dmsetup remove --retry "$1" 2>/dev/null
}

# the_disk N - the machine's Nth disk, counted from 1
the_disk() {
	local all
	read -ra all <<<"$DISKS"
	echo "${all[$(($1 - 1))]:?this machine has no such disk}"
}
