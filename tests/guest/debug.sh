# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# For cases with `# module: debug`: `. tests/guest/debug.sh` after lib.sh.

# load_module FILE - in place of the one that is loaded
load_module() {
	rmmod "$MODULE"
	insmod "$1"
	wait_until 30 test -e "$CTL"
	udev_settle
}

# load_debug - the module that can be told to wait, until the case ends
load_debug() {
	later load_module "$MODULE_FILE"
	load_module "${MODULE_FILE%/*}/floop-debug.ko"
}

# window MILLISECONDS NAME... - at these points in the driver (kernel/rules.h)
# it waits that long, so that what can happen meanwhile happens. None: nowhere
window() {
	local parameters=/sys/module/$MODULE/parameters bits=0 name
	echo "$1" >"$parameters/window_ms"
	shift
	for name; do
		case $name in
		RESUME) bits=$((bits | 1 << 0)) ;;
		END) bits=$((bits | 1 << 1)) ;;
		REMAP) bits=$((bits | 1 << 2)) ;;
		GROW) bits=$((bits | 1 << 3)) ;;
		BEGIN) bits=$((bits | 1 << 4)) ;;
		FILL) bits=$((bits | 1 << 5)) ;;
		DRAIN) bits=$((bits | 1 << 6)) ;;
		*) fail "window: what is $name?" ;;
		esac
	done
	echo "$bits" >"$parameters/windows"
}
