#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: floop attach, list, status and detach drive whichever driver serves
#   here, and name it.
# machines: stable-side-by-side
# timeout: 240
. tests/lib/cli.sh

image=$(mkimage 8M)
dev=$("$FLOOP" attach "$image" 2>"$WORK/stderr")
matches "attach prints the device alone" "$dev" "/dev/${PREFIX}[0-9]*"
is "and complains of nothing" "$(cat "$WORK/stderr")" ""
is "it is attached" "$(attr "$dev" loop/backing_file)" "$image"

noise "$WORK/data" 8
check "filling it" dd if="$WORK/data" of="$dev" bs=1M oflag=direct status=none
is "the file holds what was written" "$(sum_of "$image")" \
	"$(sum_of "$WORK/data")"

is "status: driver" "$(status "$dev" driver)" "$SERVED_BY"
is "status: image" "$(status "$dev" backing_file)" "$image"
is "status: size" "$(status "$dev" size)" $((8 << 20))
if [ "$DRIVER_MODE" != in-tree ]; then
	matches "status: version" "$(status "$dev" driver_version)" "floop *"
	matches "the module's own word" "$(attr "$dev" loop/driver)" floop
	matches "status for people" "$("$FLOOP" status "$dev")" \
		"*driver:         floop*, floop *"
fi
is "list" "$(devices)" "$dev"
"$FLOOP" list --json | check "list --json is JSON" python3 -m json.tool
"$FLOOP" status --json "$dev" | check "so is status --json" python3 -m json.tool
matches "list for people" "$("$FLOOP" list)" "NAME*BACK-FILE
$dev*$SERVED_BY*$image"

floop_detach "$dev"
is "it is detached" "$(bound "$dev" || echo no)" no
is "list is empty" "$("$FLOOP" list)" ""
ends_with 6 "floop: $dev: nothing is attached to it; *" detach "$dev"
ends_with 6 "floop: $dev: nothing is attached to it; *" status "$dev"

check "attach with all that there is" "$FLOOP" \
	attach --offset 1M --size-limit 4MiB --read-only \
	--sector-size 4096 "$image"
dev=$(devices)
is "offset" "$(attr "$dev" loop/offset)" $((1 << 20))
is "size limit" "$(attr "$dev" loop/sizelimit)" $((4 << 20))
is "size" "$(attr "$dev" size)" $((4 << 11))
is "sector size" "$(attr "$dev" queue/logical_block_size)" 4096
is "read-only" "$(attr "$dev" ro)" 1
refused "writing to it" "*" dd if=/dev/zero of="$dev" \
	bs=4096 count=1 oflag=direct
udev_settle
check "detach by the image" "$FLOOP" detach "$image"
is "it is detached" "$(bound "$dev" || echo no)" no
