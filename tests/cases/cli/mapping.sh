#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: floop attach --mapping, set, status and list report and change what is
#   mapped, as sysfs has it. --mapping on fails where an image can never be
#   mapped.
# modes: side-by-side drop-in
# machines: stable-drop-in
# timeout: 400
. tests/lib/cli.sh
map_images

someone_else="someone else has the image open"

is_mapped() {
	[ "$(attr "$1" loop/mapped)" = 1 ]
}

# all_mapped DEVICE - every byte of it
all_mapped() {
	is_mapped "$1" && maps "$1" $(($(attr "$1" size) * 512))
}

# maps DEVICE BYTES
maps() {
	[ "$(loop_stat "$1" mapped_bytes)" = "$2" ]
}

reason_is() {
	[ "$(attr "$1" loop/mapped_reason)" = "$2" ]
}

sum_of_causes() {
	python3 -c 'import json, sys
print(sum(json.load(sys.stdin)["ios_file_causes"].values()))'
}

# agrees DEVICE - status --json and sysfs agree, while nobody does I/O
# to it
agrees() {
	local name
	udev_settle
	"$FLOOP" status --json "$1" >"$WORK/status"
	for name in mapped_bytes mapped_extents mapped_memory \
		epochs_begun epochs_broken ios_mapped ios_file; do
		is "$name" "$(fields "$name" <"$WORK/status")" \
			"$(loop_stat "$1" "$name")"
	done
	is "the sum of ios_file_causes" "$(sum_of_causes <"$WORK/status")" \
		"$(loop_stat "$1" ios_file)"
	is "mapping" "$(fields mapping <"$WORK/status")" \
		"$([ "$(attr "$1" loop/mapping)" = 1 ] && echo true ||
		echo false)"
	if is_mapped "$1"; then
		is "mapped" "$(fields mapped <"$WORK/status")" true
		is "mapped_reason" "$(fields mapped_reason <"$WORK/status")" \
			null
	else
		is "mapped" "$(fields mapped <"$WORK/status")" false
		is "mapped_reason" "$(fields mapped_reason <"$WORK/status")" \
			"$(attr "$1" loop/mapped_reason)"
	fi
}

# in_list DEVICE - its column MAPPED
in_list() {
	"$FLOOP" list | awk -v device="$1" '
		NR == 1 {
			for (i = 1; i <= NF; i++)
				if ($i == "MAPPED")
					column = i
		}
		$1 == device { print $column }'
}

# broken_and_back DEVICE IMAGE - another opener ends the mapping; it comes back
# when that is gone
broken_and_back() {
	local broken
	broken=$(loop_stat "$1" epochs_broken)
	exec 5<>"$2"
	wait_until 20 reason_is "$1" "$someone_else"
	wait_until 20 maps "$1" 0
	is "status says why not" "$(status "$1" mapped_reason)" "$someone_else"
	matches "so it does to people" "$("$FLOOP" status "$1")" "*
mapping:        no: $someone_else
*"
	is "list" "$(in_list "$1")" no
	agrees "$1"
	exec 5<&-
	wait_until 20 is_mapped "$1"
	# One more epoch has begun than was broken.
	local epochs
	epochs="$(loop_stat "$1" epochs_begun) begun,"
	epochs+=" $(loop_stat "$1" epochs_broken) broken"
	matches "status for people: epochs" "$("$FLOOP" status "$1")" "*
epochs:         $epochs
*"
	is "it was broken" "$(($(status "$1" epochs_broken) > broken))" 1
	is "by us" "$(status "$1" pid)" $$
	matches "to people" "$("$FLOOP" status "$1")" "*
last broken:    20*Z by $(</proc/$$/comm) ($$)
*"
}

exercise() {
	local image dev
	on_disk xfs
	image=$MNT/image
	noise "$image" 16
	dev=$("$FLOOP" attach "$image")
	wait_until 20 all_mapped "$dev"
	matches "status for people" "$("$FLOOP" status "$dev")" "*
mapping:        yes
mapped:         16777216 (16 MiB), 100% of the device, in * extent*
map's memory:   *
epochs:         * begun, * broken
I/Os:           * mapped, * through the file*"
	is "list" "$(in_list "$dev")" yes
	agrees "$dev"
	broken_and_back "$dev" "$image"
	floop_detach "$dev"

	dev=$("$FLOOP" attach --mapping off "$image")
	is "--mapping off: why not" "$(status "$dev" mapped_reason)" \
		"turned off"
	is "list" "$(in_list "$dev")" no
	agrees "$dev"
	is "set on says nothing" "$("$FLOOP" set "$dev" --mapping on 2>&1)" ""
	wait_until 20 all_mapped "$dev"
	agrees "$dev"
	is "set off" \
		"$("$FLOOP" set --mapping off --json "$dev" |
		fields mapped_reason)" "turned off"
	agrees "$dev"
	is "off is off already" "$("$FLOOP" set "$dev" --mapping off 2>&1)" ""
	floop_detach "$dev"

	# A quarter of it has never been written.
	mkimage 16M "$image" >/dev/null
	noise "$WORK/noise" 12
	dd if="$WORK/noise" of="$image" bs=1M conv=notrunc status=none
	# On a slow host it may not be mapped in time, now and then.
	for _ in {1..10}; do
		dev=$("$FLOOP" attach --mapping on "$image" 2>"$WORK/stderr")
		[ -s "$WORK/stderr" ] || break
		floop_detach "$dev"
	done
	is "--mapping on has nothing to say" "$(cat "$WORK/stderr")" ""
	wait_until 20 maps "$dev" $((12 << 20))
	is "list: how much" "$(in_list "$dev")" 75%
	floop_detach "$dev"

	# A device that shows a part of its image has no percentage.
	dev=$("$FLOOP" attach --offset 1M "$image")
	wait_until 20 maps "$dev" $((12 << 20))
	is "list: of a part of the image" "$(in_list "$dev")" yes
	matches "status: of a part of the image" "$("$FLOOP" status "$dev")" "*
mapped:         12582912 (12 MiB), of the whole image, in *"
	floop_detach "$dev"
}

exercise

# Images that can never be mapped.
image=$(mkimage 16M)
ends_with 7 "floop: $image: can't be mapped: the image is not on ext4 or xfs; *; --mapping auto *" \
	attach --mapping on "$image"
ends_with 7 "floop: $MNT/image: can't be mapped: I/O to the image is not direct (*" \
	attach --mapping on --direct off "$MNT/image"
is "nothing is attached" "$("$FLOOP" list)" ""
dev=$("$FLOOP" attach --mapping off "$image")
ends_with 7 "floop: $dev: can't be mapped: the image is not on ext4 or xfs; *" \
	set --mapping on "$dev"
is "and it is off as before" "$(attr "$dev" loop/mapping)" 0
is "list" "$(in_list "$dev")" no
floop_detach "$dev"
dev=$("$FLOOP" attach "$image")
ends_with 7 "floop: $dev: can't be mapped: the image is not on ext4 or xfs; *" \
	set --mapping on "$dev"
is "and it is on as before" "$(attr "$dev" loop/mapping)" 1
floop_detach "$dev"
ends_with 6 "floop: $dev: nothing is attached to it; *" set --mapping off "$dev"

# --mapping on only warns while another process has the image open.
exec 5<>"$MNT/image"
out=$("$FLOOP" attach --mapping on "$MNT/image" 2>&1 >"$WORK/device")
dev=$(cat "$WORK/device")
matches "not mapped yet" "$out" \
	"floop: warning: $MNT/image: is not mapped yet: $someone_else; *"
exec 5<&-
wait_until 20 is_mapped "$dev"
floop_detach "$dev"
