#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: loop.ko carries the aliases by which it loads on demand, and modprobe
#   loads both modules.
# modes: side-by-side drop-in
. tests/lib/case.sh

aliases=$(modinfo -F alias "$MODULE_FILE" | sort | xargs)
case $DRIVER_MODE in
drop-in)
	for alias in block-major-7-\* char-major-10-237 devname:loop-control; do
		matches "alias $alias" " $aliases " "* $alias *"
	done
	matches "its version" "$(cat /sys/module/loop/version)" "floop *"
	;;
side-by-side)
	# It gets its device numbers when it is loaded, so no node can load it,
	# and the in-tree driver's nodes must not.
	is "no alias" "$aliases" ""
	;;
esac
is "licence" "$(modinfo -F license "$MODULE_FILE")" GPL

# A module tree with our module in it, as `make install` leaves it.
tree=$WORK/lib/modules/$(uname -r)
mkdir -p "$tree/updates"
cp "$MODULE_FILE" "$tree/updates/"
cp "/lib/modules/$(uname -r)"/modules.{order,builtin} "$tree/"
depmod -b "$WORK"
if [ "$DRIVER_MODE" = drop-in ]; then
	is "modprobe by block-major-7-0" \
		"$(modprobe -d "$WORK" -R block-major-7-0)" loop
	is "modprobe by char-major-10-237" \
		"$(modprobe -d "$WORK" -R char-major-10-237)" loop
	matches "static nodes" "$(cat "$tree/modules.devname")" \
		"*loop loop-control c10:237*"
else
	is "modprobe by its name" "$(modprobe -d "$WORK" -R floop)" floop
fi
udev_settle
for _ in $(seq 50); do
	! rmmod "$MODULE" 2>/dev/null || break
	sleep 0.1
done
check "loading it by that" \
	modprobe -d "$WORK" \
	"$([ "$DRIVER_MODE" = drop-in ] && echo block-major-7-0 || echo floop)"
wait_until 20 test -e "$CTL"
device=$(attach "$(mkimage 1M)")
detach "$device"
