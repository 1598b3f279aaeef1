# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
# The module under test, its parameters and its debug build (`# module: debug`).
[ -z "${MODULE_SH-}" ] || return 0
MODULE_SH=1

# in_tree - is the kernel's own driver tested?
in_tree() {
	[ "$DRIVER_MODE" = in-tree ]
}

# set_mapping 0|1|N|Y - whether images that are attached from here on are mapped
set_mapping() {
	echo "$1" >"/sys/module/$MODULE/parameters/mapping"
}

# The program that lists the extents of images that share blocks
EXTENTS_HELPER=/usr/sbin/floop-extents

# set_helper PROGRAM - what the module starts for that; "": nothing. It is as
# before when the case ends.
set_helper() {
	local helper=/sys/module/$MODULE/parameters/helper
	later sh -c "! [ -e $helper ] || echo '$(cat "$helper")' >$helper"
	echo "$1" >"$helper"
}

# map_images - turn mapping on until the case ends. Otherwise cases run without
# it, whatever the module's default. The in-tree driver maps nothing
map_images() {
	! in_tree || return 0
	later set_mapping "$(cat "/sys/module/$MODULE/parameters/mapping")"
	set_mapping 1
}

# insert [FILE] [PARAMETER=VALUE]... - load the module, or this build of it,
# under this mode's names; the in-tree driver where that is tested
insert() {
	local file=$MODULE_FILE
	case ${1-} in
	*.ko)
		file=$1
		shift
		;;
	esac
	if in_tree; then
		modprobe "$MODULE" "$@"
	else
		insmod "$file" "names=$PREFIX" "$@"
	fi
}

# insert_missing - insert it, unless it is loaded
insert_missing() {
	[ -e "/sys/module/$MODULE" ] || insert
}

# unload NAME - remove a module, when udev has let go of its devices
unload() {
	wait_until 20 rmmod "$1"
}

# load_module FILE [PARAMETER=VALUE]... - in place of the loaded one; keeps the
# parameters mapping and allocate
load_module() {
	local mapping allocate
	mapping=$(cat "/sys/module/$MODULE/parameters/mapping")
	allocate=$(cat "/sys/module/$MODULE/parameters/allocate")
	unload "$MODULE"
	insert "$1" "allocate=$allocate" "${@:2}"
	set_mapping "$mapping"
	wait_until 30 test -e "$CTL"
	udev_settle
}

# load_debug - load the debug build until the case ends
load_debug() {
	later load_module "$MODULE_FILE"
	load_module "${MODULE_FILE%/*}/floop-debug.ko"
}

# debug_bits ENUM NAME... - of the debug build (kernel/rules.h), as a number
debug_bits() {
	local bits=0 enum=$1 name line
	shift
	for name; do
		line=$(sed -n \
			"/^enum floop_$enum {/,/^}/s/^\tFLOOP_${enum^^}_\(.*\),$/\1/p" \
			kernel/rules.h | grep -n -x "$name") ||
			fail "no $enum $name"
		bits=$((bits | 1 << (${line%%:*} - 1)))
	done
	echo "$bits"
}

# break_rules [NAME]... - the debug build breaks these, and no others
break_rules() {
	debug_bits rule "$@" >"/sys/module/$MODULE/parameters/break_rules"
}

# window MILLISECONDS NAME... - the debug build waits that long at these points
# (kernel/rules.h), or until it is told otherwise. No NAME: nowhere
window() {
	local parameters=/sys/module/$MODULE/parameters
	echo "$1" >"$parameters/window_ms"
	shift
	debug_bits window "$@" >"$parameters/windows"
}

# in_window NAME - does a task wait there now?
in_window() {
	local waits
	waits=$(cat "/sys/module/$MODULE/parameters/window_waits")
	[ $((waits & $(debug_bits window "$1"))) != 0 ]
}
