#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: With --allocate, given to attach or set, a write to a hole allocates
#   as much as it says, which is mapped. status says so, and how much of it is
#   written by now. Another word is refused and changes nothing. The module
#   parameter is the default of each attach. With less free space than
#   leave_free says, nothing is allocated ahead.
# modes: side-by-side drop-in
# machines: stable-side-by-side
. tests/lib/cli.sh
. tests/lib/guard.sh
programs loopdev pattern

parameter=/sys/module/floop/parameters/allocate
leave_free=/sys/module/floop/parameters/leave_free
default=$(cat "$parameter")
is "what is left free" "$(cat "$leave_free")" 5
later bash -c "echo $default >$parameter; echo 5 >$leave_free"

begin_fs ext4
mkimage 16M "$MNT/image" >/dev/null
dev=$("$FLOOP" attach --allocate 64K "$MNT/image")
wait_until 30 mapped "$dev"
is "the setting" "$(attr "$dev" loop/allocate)" 65536
check "a write" pattern write -d -q -b 4k -s 1 -o 1M "$dev" 4k
is "zeroes" "$(status "$dev" zeroed)" 61440
is "spare" "$(status "$dev" spare)" 61440
is "in the status" "$(status "$dev" allocate)" 65536
matches "as text" "$("$FLOOP" status "$dev")" \
	"*allocates*65536 (64 KiB) at a time; 61440 (60 KiB) of zeroes so far, 61440 (60 KiB) of them not written since*"
refused "another word" "*nvalid argument*" \
	bash -c "echo some >/sys/block/${dev#/dev/}/loop/allocate"
refused "no power of two" "*nvalid argument*" \
	bash -c "echo 49152 >/sys/block/${dev#/dev/}/loop/allocate"
is "and changes nothing" "$(attr "$dev" loop/allocate)" 65536
check "off" "$FLOOP" set "$dev" --allocate off
check "a write" pattern write -d -q -b 4k -s 1 -o 2M "$dev" 4k
is "zeroes after that" "$(status "$dev" zeroed)" 61440
matches "as text" "$("$FLOOP" status "$dev")" \
	"*allocates*nothing ahead; 61440*"
check "auto" "$FLOOP" set "$MNT/image" --allocate auto
is "auto" "$(attr "$dev" loop/allocate)" auto
detach "$dev"
echo 1M >"$parameter"
is "the parameter" "$(cat "$parameter")" 1048576
dev=$("$FLOOP" attach "$MNT/image")
is "the next attach" "$(attr "$dev" loop/allocate)" 1048576
detach "$dev"

for percent in 101 -1; do
	refused "$percent %" "*nvalid argument*" \
		bash -c "echo $percent >$leave_free"
done
for pair in 100:0 5:61440; do
	percent=${pair%:*}
	echo "$percent" >"$leave_free"
	dev=$("$FLOOP" attach --allocate 64K "$MNT/image")
	wait_until 30 mapped "$dev"
	check "a write" pattern write -d -q -b 4k -s 1 -o $((percent * 64))k \
		"$dev" 4k
	is "zeroes, with $percent % to be left free" \
		"$(status "$dev" zeroed)" "${pair#*:}"
	detach "$dev"
done
end_fs
