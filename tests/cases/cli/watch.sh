#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: floop watch prints the epochs of a mapped image as they begin and are
#   broken, and by whom, whatever bytes the name has. floop top tells mapped I/O
#   from I/O through the file system.
# modes: side-by-side drop-in
# machines: stable-side-by-side lts-drop-in
# timeout: 240
. tests/lib/cli.sh
. tests/lib/guard.sh

# happened EVENT - is it in the output of watch?
happened() {
	grep -q " $1 $dev $image" "$WORK/events"
}

on_disk xfs
image=$MNT/image
noise "$image" 4
"$FLOOP" watch --interval 0.2 >"$WORK/events" &
watcher=$!
later kill_watcher
kill_watcher() {
	kill "$watcher" 2>/dev/null || true
}
dev=$("$FLOOP" attach --mapping on "$image")
wait_until 20 happened attach
exec 5<>"$image"
wait_until 20 happened epoch-broken
matches "why it was broken" "$(grep " epoch-broken $dev" "$WORK/events")" \
	"*count=1 by $(</proc/$$/comm) ($$) (someone else has the image open)*"
cp "$WORK/events" "$WORK/events.before"
exec 5<&-
begun_again() {
	tail -n +"$(($(wc -l <"$WORK/events.before") + 1))" "$WORK/events" |
		grep -q " epoch-begun $dev $image count="
}
wait_until 20 begun_again

# The name of a thread is of any bytes
own=$(</proc/$$/comm)
# named NAME SHOWN - break an epoch by that name; in JSON it is SHOWN
named() {
	wait_mapped "$dev"
	printf '%s' "$1" >/proc/$$/comm
	exec 5<>"$image"
	exec 5<&-
	printf '%s' "$own" >/proc/$$/comm
	is "its name" "$(status "$dev" command)" "$2"
	is "and the rest" "$(status "$dev" epochs_broken)" "$(broken "$dev")"
}
named Ärger Ärger
named $'a\xff\\n\n' 'a\\xff\\n\\x0a'
wait_mapped "$dev"

# reads - read the device, directly, while there is a file of that name
reads() {
	while [ -e "$WORK/reads" ]; do
		dd if="$dev" of=/dev/null bs=64k iflag=direct status=none
	done
}

# rates - ios by both ways, rounded, while it is read
rates() {
	local reader
	touch "$WORK/reads"
	reads &
	reader=$!
	"$FLOOP" top --once --json --interval 2 --filter "$image" >"$WORK/top"
	rm "$WORK/reads"
	wait "$reader"
	printf '%.0f %.0f\n' "$(fields mapped_ios <"$WORK/top")" \
		"$(fields file_ios <"$WORK/top")"
}

read -r mapped file < <(rates)
is "mapped I/O" "$((mapped > 0)) $file" "1 0"
is "all of it is mapped" "$(fields mapped_percent <"$WORK/top")" 100
check "turn it off" "$FLOOP" set "$dev" --mapping off
read -r mapped file < <(rates)
is "I/O through the file system" "$mapped $((file > 0))" "0 1"
check "detach" "$FLOOP" detach "$dev"
wait_until 20 happened detach
kill -INT "$watcher"
status=0
wait "$watcher" || status=$?
is "it ends well" "$status" 0
