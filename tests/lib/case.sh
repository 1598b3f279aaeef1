# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
# The base of every case in shell: its first command is `. tests/lib/case.sh`,
# or sources another file of tests/lib/, which sources this one.
#
# Given by the runner: $PREFIX (floop or loop: /dev/$PREFIX0), $CTL (the control
# node), $DRIVER_MODE (side-by-side, drop-in, in-tree), $KERNEL (lts, stable,
# debug; lts on rt, stable on i386 and built-in), $MODULE (its name: floop, or
# loop in-tree), $MODULE_FILE (floop.ko), $FLOOP (the command), $PROGRAMS (the
# folder of those of tests/programs), $DISKS (the machine's disks, empty), $WORK
# (a scratch folder in memory, removed after the case), $SLOWER (how much more
# time things may take here).
#
# The current folder is the project's. A command that fails ends the case. A
# case takes away what it makes: what is still there at its end (attached
# devices, mounts, dm devices, processes) fails it. `later COMMAND...` has
# something taken away at the end, the newest first, whatever happens.
[ -z "${CASE_SH-}" ] || return 0
CASE_SH=1

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

. tests/lib/checks.sh
. tests/lib/module.sh
. tests/lib/devices.sh
. tests/lib/files.sh
. tests/lib/disks.sh
. tests/lib/programs.sh
. tests/lib/tracing.sh
