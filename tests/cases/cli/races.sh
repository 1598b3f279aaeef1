#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: Ten processes that attach and detach at once get a device each, again
#   and again. Nothing is left attached.
# machines: stable-side-by-side
# cpus: 2
# timeout: 240
. tests/lib/cli.sh

again_and_again() {
	local image dev n
	image=$(mkimage 1M "$WORK/image-$1")
	for n in 1 2 3 4; do
		dev=$("$FLOOP" attach "$image")
		[ "$(attr "$dev" loop/backing_file)" = "$image" ] ||
			fail "$dev is not $image"
		"$FLOOP" detach "$image" 2>/dev/null
		wait_until 60 let_go_of "$image"
	done
}

# let_go_of IMAGE - udev may have the device open for longer than the command
# waits
let_go_of() {
	! grep -qsxF "$1" /sys/block/"$PREFIX"*/loop/backing_file
}

pids=()
for n in {1..10}; do
	again_and_again "$n" &
	pids+=($!)
done
for pid in "${pids[@]}"; do
	wait "$pid" || fail "one of them failed"
done
is "nothing is left" "$("$FLOOP" list)" ""
