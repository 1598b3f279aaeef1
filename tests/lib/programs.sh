# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
# The programs of tests/programs, and processes.
[ -z "${PROGRAMS_SH-}" ] || return 0
PROGRAMS_SH=1

: "${PROJECT:=$PWD}" "${PROGRAMS:=$PROJECT/build/programs}"

# programs NAME... - build them, once, where they run; then they are commands
programs() {
	local out=$PROGRAMS name
	make -s -C "$PROJECT/tests/programs" OUT="$out" "${@/#/$out/}" ||
		fail "cannot build $*"
	mkdir -p "$WORK/bin"
	for name; do
		cp "$out/$name" "$WORK/bin/"
	done
	PATH=$WORK/bin:$PATH
}

# waits_in PID FUNCTION - does that process wait in this kernel function?
waits_in() {
	grep -q "$2" "/proc/$1/stack" 2>/dev/null
}

waits_or_is_gone() {
	[ ! -e "/proc/$1" ] || waits_in "$@"
}
