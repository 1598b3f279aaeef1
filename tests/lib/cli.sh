# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
# The command floop.
[ -z "${CLI_SH-}" ] || return 0
CLI_SH=1
. tests/lib/case.sh

: "${FLOOP:?}"
# The name of the default driver here.
case $DRIVER_MODE in
side-by-side) SERVED_BY=floop ;;
drop-in) SERVED_BY=floop-drop-in ;;
*) SERVED_BY=loop ;;
esac
export SERVED_BY

# fields NAME - the values of all the fields of that name in the JSON on
# standard input, a line each (what floop prints has each field on a line of its
# own; a JSON parser takes seconds to start here)
fields() {
	sed -nE "s/^ *\"$1\": \"?([^\"]*[^\",])\"?,?\$/\1/p"
}

# status DEVICE FIELD - the first one of that name
status() {
	"$FLOOP" status --json "$1" | fields "$2" | sed -n 1p
}

# floop_detach DEVICE - detach by the command, which doesn't wait long for udev
floop_detach() {
	udev_settle
	check "detach" "$FLOOP" detach "$1"
}

# devices - what list shows, in one line
devices() {
	"$FLOOP" list --json | fields device | xargs
}

# ends_with CODE PATTERN ARG... - floop must end with this exit code,
# complaining like PATTERN
ends_with() {
	local code=$1 pattern=$2 out got=0
	shift 2
	out=$("$FLOOP" "$@" 2>&1 >/dev/null) || got=$?
	is "exit code of floop $*" "$got" "$code"
	matches "what it says" "$out" "$pattern"
}
