#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: Side by side with the in-tree driver, --driver chooses between the two.
#   auto is floop while floop is loaded, and list shows both.
# timeout: 240
# modes: side-by-side
# machines: lts-side-by-side
# built-in: no
# debug: no
# coverage: no
. tests/lib/cli.sh

image=$(mkimage 4M)
a=$("$FLOOP" attach "$image")
b=$("$FLOOP" attach --driver floop "$(mkimage 4M)")
c=$("$FLOOP" attach --driver loop "$(mkimage 4M)")
matches "auto" "$a" "/dev/floop*"
matches "floop" "$b" "/dev/floop*"
matches "loop (not loaded until now)" "$c" "/dev/loop*"
is "who serves it" "$(status "$a" driver) $(status "$c" driver)" "floop loop"
matches "for people" "$("$FLOOP" status "$c")" "*driver:         loop (in-tree)
*"
is "list has both, in order" "$(devices)" "$a $b $c"

ends_with 4 "floop: $image: is attached to $a for writing already*" \
	attach --driver loop "$image"
warning=$("$FLOOP" attach --driver loop --if-attached allow "$image" \
	2>&1 >"$WORK/second")
matches "one image, both drivers" "$warning" \
	"*is attached to $a for writing already*"
udev_settle
check "detach by image, both" "$FLOOP" detach "$image"
is "list" "$(devices)" "$b $c"
udev_settle
check "detach those of one driver" "$FLOOP" detach --all --driver loop
is "list" "$(devices)" "$b"
udev_settle
check "detach" "$FLOOP" detach --all

unload floop
ends_with 3 "floop: no floop driver: /dev/floop-control is not there; *" \
	attach --driver floop "$image"
dev=$("$FLOOP" attach "$image")
matches "auto without floop" "$dev" "/dev/loop*"
is "which driver" "$(status "$dev" driver)" loop
is "direct I/O through it, too" "$(status "$dev" direct)" true
floop_detach "$dev"
unload loop
mount_at tmpfs "$WORK/modules" -t tmpfs
mount --bind "$WORK/modules" "/usr/lib/modules/$(uname -r)"
later unmount "/usr/lib/modules/$(uname -r)"
ends_with 3 "floop: no driver: neither /dev/floop-control nor /dev/loop-control is there; *" \
	attach "$image"
unmount "/usr/lib/modules/$(uname -r)"
insert
wait_until 10 [ -e /dev/floop-control ]
