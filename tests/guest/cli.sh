# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
# For cases about the command floop: `. tests/guest/cli.sh` after lib.sh.

: "${FLOOP:?}"
# What the default driver calls itself here.
case $DRIVER_MODE in
side-by-side) SERVED_BY=floop ;;
drop-in) SERVED_BY=floop-drop-in ;;
*) SERVED_BY=loop ;;
esac
export SERVED_BY

# field NAME - of the JSON object on standard input, as Python prints it; NAME may be a.b
field() {
	python3 -c '
import functools, json, sys
print(functools.reduce(lambda o, k: o[int(k) if k.isdigit() else k],
                       sys.argv[1].split("."), json.load(sys.stdin)))' "$1"
}

# status DEVICE FIELD
status() {
	"$FLOOP" status --json "$1" | field "$2"
}

# ends_with CODE PATTERN ARG... - floop must end with this exit code, complaining like PATTERN
ends_with() {
	local code=$1 pattern=$2 out got=0
	shift 2
	out=$("$FLOOP" "$@" 2>&1 >/dev/null) || got=$?
	is "exit code of floop $*" "$got" "$code"
	matches "what it says" "$out" "$pattern"
}

gone() {
	! bound "$1"
}
