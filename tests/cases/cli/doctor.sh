#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: floop doctor says why floop maps an image or not, who has it open, who
#   broke its last epoch, and what of the machine keeps it from being mapped. It
#   leaves everything as it is. The command that it gives for holes in an image
#   fills them.
# modes: side-by-side drop-in
# machines: stable-side-by-side lts-drop-in
# timeout: 240
. tests/lib/cli.sh
map_images

someone_else="someone else has the image open"

# found CHECK [DEVICE]... - what doctor says of it
found() {
	local check=$1
	shift
	"$FLOOP" doctor --json "$@" >"$WORK/doctor" || true
	awk -v check="\"$check\"," '
		/^ *"check":/ { is = $2 == check }
		is && /^ *"(what|mend)":/ { print }' "$WORK/doctor"
}

# mend CHECK DEVICE - the command for it
mend() {
	found "$@" | fields mend
}

# fills - does it fill the holes of the image? It can while nobody, like udev,
# uses the device
fills() {
	[[ $(mend holes "$dev") == *"&& dd if=$image of=$image "* ]]
}

opened() {
	[ "$(attr "$1" loop/mapped_reason)" = "$someone_else" ]
}

is_mapped() {
	[ "$(attr "$1" loop/mapped)" = 1 ]
}

on_disk xfs
image=$MNT/image
noise "$image" 4
dev=$("$FLOOP" attach --mapping on "$image")
wait_until 20 is_mapped "$dev"
is "a mapped device" "$(found unmapped "$dev")" ""
exec 5<>"$image"
wait_until 20 opened "$dev"
matches "who has the image open" "$(found unmapped "$dev")" \
	"*$someone_else: *bash [(]process $$*"
matches "who broke the last epoch, and when" "$(found unmapped "$dev")" \
	"*; last broken 20*Z by $(</proc/$$/comm) ($$)\"*"
nobodys=$(setpriv --reuid=65534 --regid=65534 --clear-groups \
	"$FLOOP" doctor "$dev")
matches "to others, only when" "$nobodys" \
	"*$someone_else; last broken 20*Z; wait: *"
exec 5<&-
wait_until 20 is_mapped "$dev"
check "turn it off" "$FLOOP" set "$dev" --mapping off
matches "turned off" "$(found unmapped "$dev")" \
	"*is not mapped: turned off\"*floop set $dev --mapping on*"
check "turn it on" "$FLOOP" set "$dev" --mapping on
epochs=$(loop_stat "$dev" epochs_broken)

later sysctl -q fs.leases-enable=1
sysctl -q fs.leases-enable=0
matches "leases are off" "$(found leases)" "*sysctl fs.leases-enable=1*"
sysctl -q fs.leases-enable=1
is "leases are on" "$(found leases)" ""

"$FLOOP" doctor --json >"$WORK/doctor" || true
case $DRIVER_MODE in
side-by-side)
	matches "the driver" "$(cat "$WORK/doctor")" '*"floop": "floop *'
	;;
drop-in)
	matches "the driver" "$(cat "$WORK/doctor")" \
		'*"loop_driver": "floop-drop-in"*'
	;;
esac
is "no epoch was broken" "$(loop_stat "$dev" epochs_broken)" "$epochs"

# Discards punch holes in an image that was written in full
all_mapped() {
	[ "$(loop_stat "$dev" mapped_bytes)" = $((4 << 20)) ]
}

PATH=${FLOOP%/*}:$PATH
wait_until 20 all_mapped
check "discard" blkdiscard -o 1M -l 1M "$dev"
sync
before=$(sum_of "$dev")
exec 6<"$dev"
is "in use: no more holes" "$(mend holes "$dev")" \
	"floop set $dev --discard keep"
exec 6<&-
wait_until 20 fills
check "fill them" sh -c "$(mend holes "$dev")"
is "what is left" "$(found holes "$dev")" ""
wait_until 20 all_mapped
is "the content" "$(sum_of "$dev")" "$before"
check "more discards" blkdiscard -o 1M -l 1M "$dev"
is "they punch no holes" "$(found holes "$dev")" ""
check "detach" "$FLOOP" detach "$dev"
