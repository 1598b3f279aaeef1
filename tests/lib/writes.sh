# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
# Writes that go on while a case does something else (the program keeper).
[ -z "${WRITES_SH-}" ] || return 0
WRITES_SH=1
# shellcheck source=/dev/null
. tests/lib/case.sh

# begin_writes DEVICE SIZE [keeper-option]... - one in flight for each thread;
# the expected content is in $WORK/model
begin_writes() {
	local device=$1 size=$2
	shift 2
	rm -f "$WORK/model" "$WORK/keeper"
	keeper write "$@" -m "$WORK/model" "$device" \
		"$size" >"$WORK/keeper" 2>&1 &
	keeper=$!
	later stop_writes $keeper
	wait_until 20 grep -q began "$WORK/keeper"
}

# stop_writes PID - after a failure of the case
stop_writes() {
	[ ! -e "/proc/$1" ] || kill "$1" 2>/dev/null
	wait "$1" 2>/dev/null || true
}

# end_writes WHAT - none failed, and the device has the expected content
end_writes() {
	kill -TERM "$keeper" || fail "$1: $(cat "$WORK/keeper")"
	wait "$keeper" || fail "$1: $(cat "$WORK/keeper")"
	echo "ok: $1: $(tail -n 1 "$WORK/keeper")"
}
