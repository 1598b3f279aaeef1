#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: The tracepoints report when an epoch begins, is broken, has drained and
#   is paused, in that order and with the device and the epoch. They report
#   which path each I/O takes.
# modes: side-by-side
# machines: stable-side-by-side
. tests/lib/guard.sh
programs loopdev pattern

begin_tracing

# events EVENT... - of the device, from the oldest on, as EVENT: its fields
events() {
	local pattern
	pattern=$(printf '|floop_%s' "$@")
	sed -nE "s/^.* (${pattern#|}): device=$number (.*)$/\1: \2/p" \
		"$tracing/trace"
}

# follows WHAT LINES PATTERN... - the lines, one by one
follows() {
	local what=$1 line
	local -a lines
	mapfile -t lines <<<"$2"
	shift 2
	for line in "${lines[@]}"; do
		# shellcheck disable=SC2053
		[[ $line == ${1-nothing} ]] ||
			fail "$what: '$line', and not '${1-nothing}'," \
				"in: ${lines[*]}"
		shift
	done
	[ $# -eq 0 ] || fail "$what: not there: $1, in: ${lines[*]}"
	echo "ok: $what: ${lines[*]}"
}

begin_fs ext4
written "$MNT/image" 4M 1
echo >"$tracing/trace"
echo 1 >"$tracing/events/floop/enable"
dev=$(attach "$MNT/image")
number=${dev#"/dev/$PREFIX"}
wait_mapped "$dev"
udev_settle
follows "an epoch" "$(events epoch_begin epoch_break epoch_drain epoch_pause)" \
	"floop_epoch_begin: epoch=*"

echo >"$tracing/trace"
dd if="$dev" of=/dev/null bs=8k skip=1 count=1 iflag=direct status=none
follows "a mapped read" "$(events io_mapped io_file)" \
	"floop_io_mapped: op=0 flags=0x* sector=16 sectors=16"

echo >"$tracing/trace"
was=$(broken "$dev")
cat "$MNT/image" >/dev/null
is "$dev: epochs broken" "$(broken "$dev")" $((was + 1))
wait_mapped "$dev"
follows "another opener" \
	"$(events epoch_begin epoch_break epoch_drain epoch_pause)" \
	"floop_epoch_break: epoch=*" \
	"floop_epoch_drain: epoch=*" "floop_epoch_begin: epoch=*"

echo >"$tracing/trace"
blkdiscard -o 1M -l 64k "$dev"
(wait_until 20 mapped "$dev") || fail "not mapped after a discard"
follows "a discard" \
	"$(events epoch_begin epoch_break epoch_drain epoch_pause)" \
	"floop_epoch_pause: epoch=*" \
	"floop_epoch_begin: epoch=*"
matches "its I/O" "$(events io_mapped io_file | grep 'op=3 ')" \
	"floop_io_file: op=3 flags=0x* sector=2048 sectors=128"

echo >"$tracing/trace"
pattern write -d -n -q -b 4k -s 2 -o 1M "$dev" 4k
follows "a write to the hole" "$(events io_mapped io_file)" \
	"floop_io_file: op=1 flags=0x* sector=2048 sectors=8"
detach "$dev"
end_fs
