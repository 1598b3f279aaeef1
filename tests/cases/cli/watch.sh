#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: floop watch prints the epochs of a mapped image as they begin and are
#   broken, and by whom, whatever bytes the name has, and each I/O that fails,
#   mapped or not. floop top tells mapped I/O from I/O through the file system,
#   and why it took that way.
# modes: side-by-side drop-in
# machines: stable-side-by-side
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
truncate -s 1M "$MNT/idle"
idle=$("$FLOOP" attach "$MNT/idle")
"$FLOOP" watch --interval 0.2 >"$WORK/events" &
watcher=$!
"$FLOOP" watch --interval 0.2 --json >"$WORK/events.json" &
other=$!
later kill_watchers
kill_watchers() {
	kill "$watcher" "$other" 2>/dev/null || true
	wait "$watcher" "$other" || true
}

# event NAME COUNT - the last one in JSON of such a count, without its times
event() {
	local start="\"event\":\"$1\",\"device\":\"$dev\",.*\"count\":$2[,}]"
	grep "$start" "$WORK/events.json" |
		sed -E 's/"time":[0-9.]+,//g' | tail -n 1
}

is_event() {
	[ -n "$(event "$@" || true)" ]
}
dev=$("$FLOOP" attach --mapping on "$image")
wait_until 20 happened attach
wait_until 20 mapped "$dev"
exec 5<>"$image"
wait_until 20 happened epoch-broken
matches "why it was broken" "$(grep " epoch-broken $dev" "$WORK/events")" \
	"*count=1 by $(</proc/$$/comm) ($$) (someone else has the image open)*"
wait_until 20 is_event epoch-broken 1
its="\"device\":\"$dev\",\"backing_file\":\"$image\""
why='"reason":"someone else has the image open"'
who="\"last_break\":{\"pid\":$$,\"command\":\"$(</proc/$$/comm)\"}"
is "the same as JSON" "$(event epoch-broken 1)" \
	"{\"event\":\"epoch-broken\",$its,\"count\":1,$why,$who}"
cp "$WORK/events" "$WORK/events.before"
exec 5<&-
begun_again() {
	tail -n +"$(($(wc -l <"$WORK/events.before") + 1))" "$WORK/events" |
		grep -q " epoch-begun $dev $image count="
}
wait_until 20 begun_again
wait_until 20 is_event epoch-begun "[1-9]"
matches "that, too" "$(event epoch-begun "[1-9]")" \
	"{\"event\":\"epoch-begun\",$its,\"count\":[1-9]}"

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

# top ARG... - what it shows of both devices, in $WORK/top, while one is read
# and this shell breaks its epochs
top() {
	local reader top
	touch "$WORK/reads"
	reads &
	reader=$!
	"$FLOOP" top --once --interval 4 --filter "$MNT/" "$@" >"$WORK/top" &
	top=$!
	while kill -0 "$top" 2>/dev/null; do
		exec 5<>"$image"
		sleep 0.3
		exec 5<&-
		wait_mapped "$dev"
	done
	wait "$top"
	rm "$WORK/reads"
	wait "$reader"
}

# of NAME - that field of the first device in $WORK/top
of() {
	fields "$1" <"$WORK/top" | sed -n 1p
}

is "by name" "$("$FLOOP" top --once --interval 0.1 --filter "$MNT/" |
	sed -E '1d; s/ .*//' | xargs)" "$idle $dev"
top --json --sort broken
is "by broken epochs" "$(fields device <"$WORK/top" | xargs)" "$dev $idle"
is "epochs were broken" "$(($(of epochs_broken) > 0))" 1
matches "I/O while not mapped" "$(of epoch)" "*[1-9]*"
is "who broke it" "$(of pid) $(of command)" "$$ $own"
top --sort file
matches "the headings" "$(sed -n 1p "$WORK/top" | xargs)" \
	"NAME * MAPPED FILE/s WHY BROKEN BY USER IMAGE"
is "by I/O through the file system" "$(sed -E '1d; s/ .*//' "$WORK/top" |
	xargs)" "$dev $idle"
matches "the row of the first" "$(sed -n 2p "$WORK/top" | xargs)" \
	"$dev *% [1-9]* epoch [1-9]* $own ($$) * $image"

wait_mapped "$dev"
read -r mapped file < <(rates)
is "mapped I/O" "$((mapped > 0)) $file" "1 0"
is "all of it is mapped" "$(fields mapped_percent <"$WORK/top")" 100
check "turn it off" "$FLOOP" set "$dev" --mapping off
read -r mapped file < <(rates)
is "I/O through the file system" "$mapped $((file > 0))" "0 1"
check "detach" "$FLOOP" detach "$dev" "$idle"
wait_until 20 happened detach

# A disk that can't be read in its middle, where nobody looks for a file system
unmount "$MNT"
disk=$(the_disk 1)
printf '%s\n' "0 16384 linear $disk 0" "16384 2048 error" \
	"18432 16384 linear $disk 0" | dmsetup create ill
later dm_remove ill
image=$(realpath /dev/mapper/ill)
dev=$("$FLOOP" attach --mapping on "$image")
wait_until 20 happened attach
# fails HOW-OFTEN - one more read
fails() {
	refused "a read" "*Input/output error*" dd if="$dev" of=/dev/null \
		bs=4k skip=2100 count=1 iflag=direct
	is "failed" "$(status "$dev" ios_failed)" "$1"
	wait_until 20 counts_errors "$1"
}
# counts_errors NUMBER - that watch has told of
counts_errors() {
	[ "$(grep -c " error $dev $image count=1 (I/O)$" "$WORK/events")" = "$1" ]
}
is "nothing has failed" "$(status "$dev" ios_failed)" 0
fails 1
is "it was mapped" "$(loop_stat "$dev" ios_file_epoch)" 0
check "turn it off" "$FLOOP" set "$dev" --mapping off
fails 2
matches "status" "$("$FLOOP" status "$dev")" "*failed: * 2 I/Os*"
check "detach" "$FLOOP" detach "$dev"
wait_until 20 happened detach
kill -INT "$watcher"
status=0
wait "$watcher" || status=$?
is "it ends well" "$status" 0
