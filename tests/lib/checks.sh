# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
# Assertions, how often to repeat something, and what the kernel has said.
[ -z "${CHECKS_SH-}" ] || return 0
CHECKS_SH=1

# Nothing is ever written to it.
exec {NOTHING}<> <(:)

# nap SECONDS - sleep, without a process, which takes an emulated machine 10 ms
nap() {
	read -rt "$1" -u "$NOTHING" || true
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

# check WHAT COMMAND [ARG]... - it must succeed; what it prints is shown if it
# does not
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

# refused WHAT PATTERN COMMAND [ARG]... - it must fail, saying something like
# PATTERN
refused() {
	local what=$1 pattern=$2 out
	shift 2
	if out=$("$@" 2>&1); then
		fail "$what: '$*' succeeded, it should have been refused"
	fi
	# shellcheck disable=SC2053
	[[ $out == $pattern ]] ||
		fail "$what: refused, but with '$out', not '$pattern'"
	echo "ok: $what: refused: $out"
}

# wait_until SECONDS COMMAND [ARG]... - until it succeeds; fails if it never
# does
wait_until() {
	local end=$((SECONDS + $1 * ${SLOWER:-1}))
	shift
	until "$@"; do
		[ "$SECONDS" -lt "$end" ] || fail "never came true: $*"
		nap 0.1
	done
}

# ended PID... - have these processes ended?
ended() {
	local pid
	for pid; do
		[ ! -e "/proc/$pid" ] || return 1
	done
}

# seed - of this run: $SEED, or a new one; it is printed, so that a failure can
# be had again
seed() {
	[ -n "${SEED-}" ] || SEED=$((RANDOM * 32768 + RANDOM))
	echo "seed $SEED (SEED=$SEED has the same run again)"
}

# file_systems ONE - what a case that is about the driver's own doings runs on:
# one file system, or both with LONG and on the debug kernel
file_systems() {
	if [ -n "${LONG-}" ] || [ "$KERNEL" = debug ]; then
		echo ext4 xfs
	else
		echo "$1"
	fi
}

# more N [M] - N, or M on the debug kernel, or $LONG times N (LONG=10 make
# test-debug: ten times as much)
more() {
	if [ -n "${LONG-}" ]; then
		echo $(($1 * LONG))
	elif [ "$KERNEL" = debug ]; then
		echo "${2-$1}"
	else
		echo "$1"
	fi
}

# mark_log - logged prints the kernel's lines from here on
mark_log() {
	log_mark=$(mktemp -u XXXXXXXXXX)
	echo "floop-test: mark $log_mark" >/dev/kmsg
}

logged() {
	dmesg --notime | sed "1,/floop-test: mark $log_mark\$/d"
}
