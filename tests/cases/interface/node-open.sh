#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: An open of a node without a device makes the device, where the kernel
#   still does that (CONFIG_BLOCK_LEGACY_AUTOLOAD).
# machines: lts-side-by-side stable-drop-in
. tests/lib/case.sh

config=/boot/config-$(uname -r)
[ -e "$config" ] || config=/lib/modules/$(uname -r)/config
autoload=absent
if [ -e "$config" ]; then
	! grep -q ^CONFIG_BLOCK_LEGACY_AUTOLOAD=y "$config" || autoload=there
elif [ -e /proc/config.gz ]; then
	! zcat /proc/config.gz | grep -q ^CONFIG_BLOCK_LEGACY_AUTOLOAD=y ||
		autoload=there
else
	fail "where is the configuration of $(uname -r)?"
fi
major=$(awk -v name="$PREFIX" \
	'/^Block/ { block = 1 } block && $2 == name { print $1 }' /proc/devices)
matches "the major number" "$major" "[0-9]*"
[ "$PREFIX" = floop ] || is "it is loop's" "$major" 7

later sh -c "loopdev remove 77 2>/dev/null || true"
mknod "$WORK/node" b "$major" 77
if [ "$autoload" = there ]; then
	check "opening the node" dd if="$WORK/node" of=/dev/null count=1
	is "made the device" "$(cat "/sys/block/${PREFIX}77/size")" 0
	is "of that number" "$(cat "/sys/block/${PREFIX}77/dev")" "$major:77"
else
	refused "opening the node" "*No such device*" dd if="$WORK/node" \
		of=/dev/null count=1
fi
