# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
# The programs of tests/programs, and processes.
[ -z "${PROGRAMS_SH-}" ] || return 0
PROGRAMS_SH=1

: "${PROGRAMS:?}"

# programs NAME... - they are commands from here on
programs() {
	mkdir -p "$WORK/bin"
	cp "${@/#/$PROGRAMS/}" "$WORK/bin/"
	PATH=$WORK/bin:$PATH
}

# waits_in PID FUNCTION - does that process wait in this kernel function?
waits_in() {
	grep -q "$2" "/proc/$1/stack" 2>/dev/null
}

waits_or_is_gone() {
	[ ! -e "/proc/$1" ] || waits_in "$@"
}
