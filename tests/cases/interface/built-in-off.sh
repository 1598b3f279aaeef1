#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: Where the loop driver is built into the kernel and kept from starting
#   (initcall_blacklist=loop_init), nobody's request loads floop, and the
#   drop-in's files have it loaded at boot. It is the loop driver then, for
#   losetup, lsblk, mount -o loop and floop attach. modprobe loop does nothing,
#   modprobe -r loop removes it, and only parameters for floop count.
# kernels: built-in
# modes: drop-in
. tests/lib/cli.sh
. tests/lib/modprobe.sh

check "how the kernel was booted" \
	grep -qw initcall_blacklist=loop_init /proc/cmdline
check "the loop driver is no module" \
	grep -q '/loop\.ko$' "$TREE/modules.builtin"
later insert_missing
unload floop
is "who serves" "$(who_serves)" none
is "major number 7" "$(awk '/^Block/ { b = 1 } b && $1 == 7' /proc/devices)" ""
check "a folder that belongs to nobody" test -d /sys/module/loop

echo "--- on demand"
cp drop-in/modprobe.conf "$DROP_IN_CONF"
mknod "$WORK/block" b 7 0
mknod "$WORK/control" c 10 237
quiet modprobe loop
refused "opening a disk's node" "*No such*" dd if="$WORK/block" of=/dev/null
refused "opening the control node" "*No such*" \
	dd if="$WORK/control" of=/dev/null
is "who serves" "$(who_serves)" none

echo "--- at boot"
mark_log
quiet boot_loads
serves floop
quiet boot_loads
is "what the kernel says" "$(logged)" \
	"floop: module loaded ($(cat /sys/module/floop/version))"
is "its major number" "$(awk '$2 == "loop" { print $1 }' /proc/devices)" 7
check "devices from the start" test -b /dev/loop0
image=$(mkimage 32M)
device=$(losetup -f --show "$image")
matches "losetup" "$device" "/dev/loop*"
is "major and minor number" "$(attr "$device" dev)" "7:${device#/dev/loop}"
is "who serves it" "$(status "$device" driver)" floop-drop-in
is "lsblk" "$(lsblk -n -o TYPE,SIZE "$device" | xargs)" "loop 32M"
mkfs.ext4 -q "$device"
losetup -d "$device"
mkdir "$WORK/mnt"
mount -o loop "$image" "$WORK/mnt"
later unmount "$WORK/mnt"
device=$(findmnt -n -o SOURCE "$WORK/mnt")
matches "mount -o loop" "$device" "/dev/loop*"
cp /etc/passwd "$WORK/mnt/file"
umount "$WORK/mnt"
wait_until 20 unbound "$device"
mount -o loop,ro "$image" "$WORK/mnt"
check "what was written is there" cmp /etc/passwd "$WORK/mnt/file"
quiet modprobe loop
refused "modprobe -r loop, in use" "*in use*" modprobe -r loop
umount "$WORK/mnt"
wait_until 20 unbound "$device"
unload loop
is "who serves" "$(who_serves)" none

echo "--- by name"
echo "options loop max_loop=3" >"$OTHER_CONF"
echo "options floop hw_queue_depth=64" >>"$OTHER_CONF"
quiet modprobe floop
serves floop
is "parameters" "$(parameter max_loop) $(parameter hw_queue_depth)" "8 64"
unload floop
device=$("$FLOOP" attach "$image")
serves floop
matches "floop attach loads it" "$device" "/dev/loop*"
doctor=$("$FLOOP" doctor) || true
matches "floop doctor" "$doctor" "*as the loop driver*"
case $doctor in
*initcall_blacklist*) fail "doctor: $doctor" ;;
esac
check "detach" "$FLOOP" detach "$device"
unload floop
rm "$OTHER_CONF" "$DROP_IN_CONF"
