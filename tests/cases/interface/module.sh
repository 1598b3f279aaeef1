#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: The module's parameters work, it can be unloaded, and nothing is left
#   of it then.
# modes: side-by-side drop-in
# machines: lts-side-by-side stable-drop-in
. tests/lib/case.sh

unload() {
	local i
	udev_settle
	for i in $(seq 50); do
		! rmmod "$MODULE" 2>/dev/null || return 0
		sleep 0.1
	done
	rmmod "$MODULE"
}

devices() {
	find /sys/block -name "${PREFIX}[0-9]*" | wc -l
}

# load [PARAMETER]...
load() {
	insert "$@"
	wait_until 20 test -e "$CTL"
}

# Don't let udev load a module by opening a node that is about to go: that would
# load the in-tree driver in our place.
loader=$(cat /proc/sys/kernel/modprobe)
restore_loader() {
	echo "$loader" >/proc/sys/kernel/modprobe
}
later restore_loader
echo >/proc/sys/kernel/modprobe

at_load=$(cat "/sys/module/$MODULE/parameters/max_loop")
later insert_missing

image=$(mkimage 1M)
device=$(attach "$image")
refused "unloading with a device attached" "*in use*" rmmod "$MODULE"
detach "$device"
exec 9<"$CTL"
refused "unloading with the control node open" "*in use*" rmmod "$MODULE"
exec 9<&-
exec 9<"$device"
refused "unloading with a device open" "*in use*" rmmod "$MODULE"
exec 9<&-

unload
is "no devices are left" "$(devices)" 0
is "no nodes" "$(find /dev -maxdepth 1 -name "$PREFIX*")" ""
is "no major number" "$(grep -c " $PREFIX\$" /proc/devices || true)" 0
is "no folder in /sys/module" "$(glob "/sys/module/$MODULE")" ""
is "no threads" "$(pgrep "R-$PREFIX" || true)" ""

load
is "mapping, unless told otherwise" \
	"$(cat "/sys/module/$MODULE/parameters/mapping")" Y
unload
load max_loop=3
is "max_loop=3: devices" "$(devices)" 3
unload
load max_loop=0
is "max_loop=0: devices" "$(devices)" 0
device=$(attach "$image")
is "and one when it is asked for" "$device" "/dev/${PREFIX}0"
detach "$device"
unload
load max_loop=2
mknod "$WORK/beyond" b \
	"$(awk -v name="$PREFIX" '
		/^Block/ { block = 1 }
		block && $2 == name { print $1 }' /proc/devices)" 2
refused "max_loop=2: opening the node of a third" "*No such device*" \
	dd if="$WORK/beyond" of=/dev/null count=1
is "max_loop=2: devices" "$(devices)" 2
unload

load max_part=7
is "max_part=7" "$(cat "/sys/module/$MODULE/parameters/max_part")" 7
printf 'label: dos\n2048,,\n' | sfdisk -q "$(mkimage 2M "$WORK/table")"
device=$(attach "$WORK/table")
udev_settle
wait_until 20 test -e "${device}p1"
echo "ok: max_part scans without being asked"
is "minors are multiples of 8" \
	"$(cat "/sys/block/${device#/dev/}/${device#/dev/}p1/dev")" \
	"$(attr "$device" dev | awk -F: '{ print $1 ":" $2 + 1 }')"
is "partscan is on" "$(attr "$device" loop/partscan)" 1
detach "$device"
unload
load max_part=4
is "max_part=4 becomes" "$(cat "/sys/module/$MODULE/parameters/max_part")" 7
unload

load hw_queue_depth=16
is "hw_queue_depth=16" \
	"$(cat "/sys/module/$MODULE/parameters/hw_queue_depth")" 16
device=$(attach "$image")
check "and it works" dd if="$device" of=/dev/null bs=64k status=none
detach "$device"
unload

for bad in names=flop hw_queue_depth=0 hw_queue_depth=-1 hw_queue_depth=x \
	max_part=256 max_part=100000 max_loop=x max_part=x max_loop=2000000; do
	refused "$bad" "*[Ii]nvalid*" insert "$bad"
done
is "a refused module leaves nothing" "$(glob "/sys/module/$MODULE")" ""

load
is "as before" "$(cat "/sys/module/$MODULE/parameters/max_loop")" "$at_load"
