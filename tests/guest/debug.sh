# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# For cases with `# module: debug`, or with the module loaded otherwise:
# `. tests/guest/debug.sh` after lib.sh.

# load_module FILE [PARAMETER=VALUE]... - in place of the one that is loaded
load_module() {
	rmmod "$MODULE"
	insmod "$@"
	wait_until 30 test -e "$CTL"
	udev_settle
}

# load_debug - the module that can be told to wait, until the case ends
load_debug() {
	later load_module "$MODULE_FILE"
	load_module "${MODULE_FILE%/*}/floop-debug.ko"
}

# window_bits NAME... - as a number
window_bits() {
	local bits=0 name line
	for name; do
		line=$(sed -n '/^enum floop_window {/,/^}/s/^\tFLOOP_WINDOW_\(.*\),$/\1/p' \
			kernel/rules.h | grep -n -x "$name") || fail "no window $name"
		bits=$((bits | 1 << (${line%%:*} - 1)))
	done
	echo "$bits"
}

# window MILLISECONDS NAME... - at these points in the driver (kernel/rules.h)
# it waits that long, or until it is told otherwise. None: nowhere
window() {
	local parameters=/sys/module/$MODULE/parameters
	echo "$1" >"$parameters/window_ms"
	shift
	window_bits "$@" >"$parameters/windows"
}

# in_window NAME - does somebody wait there now?
in_window() {
	local waits
	waits=$(cat "/sys/module/$MODULE/parameters/window_waits")
	[ $((waits & $(window_bits "$1"))) != 0 ]
}
