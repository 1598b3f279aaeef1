#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: Where the loop driver is built into the kernel, it serves, and floop
#   works beside it. The drop-in's files change nothing: modprobe loop and the
#   boot load nothing, floop is refused the names, and floop attach takes the
#   built-in driver. floop doctor says how the kernel has to be booted.
# kernels: built-in
# modes: side-by-side
. tests/lib/cli.sh
. tests/lib/modprobe.sh

check "the loop driver is no module" \
	grep -q '/loop\.ko$' "$TREE/modules.builtin"
serves loop
image=$(mkimage 4M)
other=$(mkimage 4M)
noise "$WORK/data" 4

# written DEVICE IMAGE - what is written to the device is in the image
written() {
	dd if="$WORK/data" of="$1" bs=1M conv=fsync status=none
	check "data written to $1" cmp "$WORK/data" "$2"
}

echo "--- beside it"
ours=$("$FLOOP" attach "$image")
matches "floop attach" "$ours" "/dev/floop*"
theirs=$(losetup -f --show "$other")
matches "losetup" "$theirs" "/dev/loop*"
is "its major number" "$(attr "$theirs" dev | cut -d: -f1)" 7
is "who serves them" \
	"$(status "$ours" driver) $(status "$theirs" driver)" "floop loop"
is "list has both" "$(devices)" "$ours $theirs"
written "$ours" "$image"
written "$theirs" "$other"
losetup -d "$theirs"
theirs=$("$FLOOP" attach --driver loop "$other")
matches "floop attach --driver loop" "$theirs" "/dev/loop*"
check "detach both" "$FLOOP" detach --all

echo "--- with the drop-in's files"
later insert_missing
unload floop
cp drop-in/modprobe.conf "$DROP_IN_CONF"
mark_log
quiet modprobe loop
quiet boot_loads
serves loop
refused "modprobe -r loop" "*builtin*" modprobe -r loop
is "floop is not loaded" "$(glob /sys/module/floop)" ""
is "what the kernel says" "$(logged)" ""
refused "the loop driver's place, which is taken" "*busy*" modprobe floop
is "floop is not loaded" "$(glob /sys/module/floop)" ""
theirs=$("$FLOOP" attach "$image")
matches "floop attach" "$theirs" "/dev/loop*"
is "who serves it" "$(status "$theirs" driver)" loop
written "$theirs" "$image"
doctor=$("$FLOOP" doctor) || true
matches "floop doctor" "$doctor" "*initcall_blacklist=loop_init*"
check "detach" "$FLOOP" detach "$theirs"
is "what the kernel says" "$(logged | grep -v '^loop[0-9]*: ' | sort -u)" \
	"register_blkdev: cannot get major 7 for loop"

echo "--- without them"
rm "$DROP_IN_CONF"
quiet modprobe floop
wait_until 20 test -e "$CTL"
is "its names" "$(parameter names)" floop
serves loop
