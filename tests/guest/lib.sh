# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
# For cases in shell: `. tests/guest/lib.sh` as the first command.
#
# Given by the runner: $PREFIX (floop or loop: /dev/$PREFIX0), $CTL (the control
# node), $DRIVER_MODE (side-by-side, drop-in, in-tree), $KERNEL (lts, stable,
# debug; lts on rt, stable on i386), $MODULE (its name), $MODULE_FILE, $FLOOP (the
# command), $PROGRAMS (where those of tests/programs are built), $DISKS (the
# machine's disks, empty), $WORK (a scratch folder in memory, removed after the
# case), $SLOWER (how much more time things may take here).
#
# The current folder is the project's. A command that fails ends the case. What
# a case makes it takes away again: what is still there at its end (attached
# devices, mounts, dm devices, processes) fails it. `later COMMAND...` has
# something taken away at the end, the newest first, whatever happens.

set -euo pipefail
shopt -s inherit_errexit

: "${PREFIX:?} ${CTL:?} ${DRIVER_MODE:?} ${KERNEL:?} ${WORK:?}"
DISKS=${DISKS-}

later_commands=()

run_later() {
	local status=$? i
	trap - EXIT
	set +e
	for ((i = ${#later_commands[@]} - 1; i >= 0; i--)); do
		eval "${later_commands[i]}" || {
			echo "at the end: ${later_commands[i]}: failed" >&2
			[ "$status" -ne 0 ] || status=1
		}
	done
	exit "$status"
}
trap run_later EXIT
trap 'echo "${BASH_SOURCE[0]}:$LINENO: failed: $BASH_COMMAND" >&2' ERR

# later COMMAND [ARG]... - run it when the case ends
later() {
	later_commands+=("$(printf '%q ' "$@")")
}

# set_mapping 0|1|N|Y - whether images are mapped that are attached from here on
set_mapping() {
	echo "$1" >"/sys/module/$MODULE/parameters/mapping"
}

# map_images - they are, until the case ends; otherwise they aren't here, whatever the module's default
map_images() {
	later set_mapping "$(cat "/sys/module/$MODULE/parameters/mapping")"
	set_mapping 1
}

fail() {
	echo "FAILED: $*" >&2
	exit 1
}

# is WHAT GOT WANTED
is() {
	[ "$2" = "$3" ] || fail "$1: got '$2', wanted '$3'"
	echo "ok: $1: $2"
}

# matches WHAT GOT PATTERN - a shell pattern
matches() {
	# shellcheck disable=SC2053
	[[ $2 == $3 ]] || fail "$1: got '$2', wanted something like '$3'"
	echo "ok: $1: $2"
}

# check WHAT COMMAND [ARG]... - it must succeed; what it prints is shown if it does not
check() {
	local what=$1 out
	shift
	if out=$("$@" 2>&1); then
		echo "ok: $what"
	else
		local status=$?
		printf '%s\n' "$out" >&2
		fail "$what: '$*' failed with status $status"
	fi
}

# refused WHAT PATTERN COMMAND [ARG]... - it must fail, saying something like PATTERN
refused() {
	local what=$1 pattern=$2 out
	shift 2
	if out=$("$@" 2>&1); then
		fail "$what: '$*' succeeded, it should have been refused"
	fi
	# shellcheck disable=SC2053
	[[ $out == $pattern ]] || fail "$what: refused, but with '$out', not '$pattern'"
	echo "ok: $what: refused: $out"
}

# wait_until SECONDS COMMAND [ARG]... - until it succeeds; fails if it never does
wait_until() {
	local end=$((SECONDS + $1 * ${SLOWER:-1}))
	shift
	until "$@"; do
		[ "$SECONDS" -lt "$end" ] || fail "never came true: $*"
		sleep 0.1
	done
}

# udev_settle - wait for udev, however much it has left to do: a hundred devices in a slow machine
udev_settle() {
	local seconds=$((120 * ${SLOWER:-1}))
	# It has hung up on who asked, in a slow machine, and gone on
	udevadm settle --timeout=$seconds || udevadm settle --timeout=$seconds
}

# without_udev - for the rest of the case nothing looks at what it makes
without_udev() {
	udev_settle
	later /usr/lib/floop/systemd-udevd --daemon
	udevadm control --exit
	# By this cryptsetup and others see whether there is one to wait for.
	rm -f /run/udev/control
}

# mkimage SIZE [PATH] - a sparse file; prints its path (in $WORK unless told)
mkimage() {
	local path=${2-}
	[ -n "$path" ] || path=$(mktemp "$WORK/image.XXXXXX")
	truncate -s 0 "$path"
	truncate -s "$1" "$path"
	echo "$path"
}

loopctl() {
	python3 tests/guest/loopctl.py "$@"
}

# attach [--read-only] [--offset N] [--size-limit N] [--block-size N] [--partscan]
# [--autoclear] [--direct] [--device DEVICE] FILE - through the ioctls; prints the device
attach() {
	local options=()
	while [ $# -gt 1 ]; do
		case $1 in
		--read-only) options+=(-r) ;;
		--partscan) options+=(-p) ;;
		--autoclear) options+=(-a) ;;
		--direct) options+=(-d) ;;
		--offset) options+=(-o "$2") && shift ;;
		--size-limit) options+=(-s "$2") && shift ;;
		--block-size) options+=(-b "$2") && shift ;;
		--device) options+=(-n "${2#/dev/"$PREFIX"}") && shift ;;
		*) fail "attach: what is $1?" ;;
		esac
		shift
	done
	loopdev attach "${options[@]}" "$1"
}

# detach DEVICE... - and wait until it is
detach() {
	local device
	for device; do
		loopdev detach "$device"
	done
}

# errno COMMAND [ARG]... - of loopctl: "ok" or the errno's name
errno() {
	local out
	if out=$(loopctl "$@" 2>&1); then
		echo ok
	else
		out=${out##*loopctl: }
		echo "${out%%:*}"
	fi
}

# attr DEVICE NAME - a file of its sysfs folder: size, ro, loop/dio, queue/fua..
attr() {
	echo "$(<"/sys/block/${1#/dev/}/$2")"
}

# loop_stat DEVICE NAME - a number of its loop/stat: mapped_bytes, ios_file..
loop_stat() {
	local name value
	while read -r name value; do
		[ "$name" != "$2" ] || echo "$value"
	done <"/sys/block/${1#/dev/}/loop/stat"
}

# dio DEVICE - 1 if its I/O is direct
dio() {
	attr "$1" loop/dio
}

bound() {
	[ -e "/sys/block/${1#/dev/}/loop/backing_file" ]
}

unbound() {
	! bound "$1"
}

# glob PATTERN - the paths that match it, on one line; nothing if there are none
glob() {
	local paths=()
	mapfile -t paths < <(compgen -G "$1" | sort)
	echo "${paths[*]}"
}

# on_disk FS [DISK] [MKFS-OPTION]... - make a file system on the (first) disk and
# mount it for the length of the case: $MNT. FS: ext4 xfs btrfs f2fs vfat
on_disk() {
	local fs=$1 disk=${2-}
	shift
	[ $# -eq 0 ] || shift
	[ -n "$disk" ] || disk=${DISKS%% *}
	[ -n "$disk" ] || fail "this machine has no disk"
	make_fs "$fs" "$disk" "$@"
	MNT=$WORK/$fs-${disk##*/}
	mount_at "$disk" "$MNT"
}

# make_fs FS DEVICE [OPTION]...
make_fs() {
	local fs=$1 device=$2
	shift 2
	case $fs in
	ext4) mkfs.ext4 -q -F "$@" "$device" ;;
	xfs) mkfs.xfs -q -f "$@" "$device" ;;
	btrfs) mkfs.btrfs -q -f "$@" "$device" >/dev/null ;;
	f2fs) mkfs.f2fs -q -f "$@" "$device" >/dev/null ;;
	vfat) mkfs.vfat "$@" "$device" >/dev/null ;;
	*) fail "make_fs: what is $fs?" ;;
	esac
}

# mount_at WHAT WHERE [MOUNT-OPTION]... - until the end of the case
mount_at() {
	local what=$1 where=$2
	shift 2
	mkdir -p "$where"
	mount "$@" "$what" "$where"
	later unmount "$where"
}

# unmount WHERE - if it is mounted; udev and others may look at it for a moment
unmount() {
	local i
	for i in 1 2 3 4 5 6 7 8 9 10; do
		# Not mountpoint: it doesn't know one whose file system has been shut down
		findmnt -n "$1" >/dev/null || return 0
		umount "$1" && return 0
		sleep "0.$i"
	done
	umount "$1"
}

drop_caches() {
	sync
	echo 3 >/proc/sys/vm/drop_caches
}

# noise FILE MEGABYTES - fill it with bytes that no compression shrinks
noise() {
	head -c "$2M" /dev/urandom >"$1"
}

sum_of() {
	local line
	line=$(sha256sum "$1")
	echo "${line%% *}"
}
