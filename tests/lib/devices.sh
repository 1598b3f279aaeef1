# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
# Loop devices: their ioctls and their files in sysfs.
[ -z "${DEVICES_SH-}" ] || return 0
DEVICES_SH=1

# attach [--read-only] [--offset N] [--size-limit N] [--block-size N]
# [--partscan] [--autoclear] [--direct] [--device DEVICE] FILE - through the
# ioctls; prints the device
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

# detach DEVICE... - and wait until it is detached
detach() {
	local device
	for device; do
		loopdev detach "$device"
	done
}

# errno VERB [ARG]... - of loopdev: "ok" or the errno's name
errno() {
	local out
	if out=$(loopdev "$@" 2>&1); then
		echo ok
	elif [[ $out =~ :\ (E[A-Z0-9]+):\  ]]; then
		echo "${BASH_REMATCH[1]}"
	else
		echo "$out"
	fi
}

# attr DEVICE NAME - a file of its sysfs folder: size, ro, loop/dio, queue/fua..
attr() {
	echo "$(<"/sys/block/${1#/dev/}/$2")"
}

# loop_stat DEVICE NAME - a number of its loop/stat: mapped_bytes, ios_file..
loop_stat() {
	local all value
	all=$'\n'$(<"/sys/block/${1#/dev/}/loop/stat")
	# No loop of reads, which an emulated machine takes 10 ms for
	value=${all#*$'\n'"$2 "}
	[ "$value" = "$all" ] || echo "${value%%$'\n'*}"
}

# allocate DEVICE off|auto|BYTES - what a write to a hole allocates at least
allocate() {
	echo "$2" >"/sys/block/${1#/dev/}/loop/allocate"
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

# udev_settle - wait for udev, however long its queue is: a hundred devices in a
# slow machine
udev_settle() {
	local seconds=$((120 * ${SLOWER:-1}))
	# It has hung up on who asked, in a slow machine, and gone on
	udevadm settle --timeout=$seconds || udevadm settle --timeout=$seconds
}

# watch_devices - have udev read a device again after it was written to, as it
# does outside of this machine; for the rest of the case
watch_devices() {
	local rule=/run/udev/rules.d/99-no-watch.rules
	mv "$rule" "$WORK/"
	later udevadm control --reload
	later mv "$WORK/${rule##*/}" "$rule"
	udevadm control --reload
}

# udev_processes - those that are alive; the dead may wait long for init here
udev_processes() {
	sed -nE 's/^([0-9]+) \((systemd-udevd|\(udev-worker\))\) [^ZX].*/\1/p' \
		/proc/[0-9]*/stat 2>/dev/null || true
}

# without_udev - stop udev for the rest of the case
without_udev() {
	local left
	udev_settle
	later /usr/lib/floop/systemd-udevd --daemon
	# It has nothing to do; and asked to end (udevadm control --exit), it
	# has at times not ended.
	while left=$(udev_processes) && [ "$left" ]; do
		# shellcheck disable=SC2086 # several
		kill -KILL $left 2>/dev/null || true
		nap 0.05
	done
	# cryptsetup and others check this to see whether to wait for udev.
	rm -f /run/udev/control
}
