#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: /sys/block/*/stat counts a device's flushes as it does for the in-tree
#   driver: mapped, through the file system and buffered.
# modes: side-by-side
. tests/lib/guard.sh

# flushes DEVICE - the 16th column: Documentation/block/stat.rst
flushes() {
	awk '{ print $16 }' "/sys/block/${1#/dev/}/stat"
}

# counts WHAT DEVICE
counts() {
	local before
	udev_settle
	before=$(flushes "$2")
	sync "$2"
	sync "$2"
	sync "$2"
	is "$1" "$(($(flushes "$2") - before))" 3
	matches "$1: the time they took" \
		"$(awk '{ print $17 }' "/sys/block/${2#/dev/}/stat")" "[0-9]*"
}

modprobe loop
on_disk ext4
head -c 4M /dev/urandom >"$MNT/image"
sync
dev=$(CTL=/dev/loop-control loopdev attach "$MNT/image")
counts "in-tree" "$dev"
loopdev detach "$dev"

programs loopdev
dev=$(loop_attach buffered "$MNT/image")
counts buffered "$dev"
detach "$dev"
set_mapping 0
dev=$(loop_attach direct "$MNT/image")
counts "through the file system" "$dev"
is "mapped" "$(ios "$dev" mapped)" 0
detach "$dev"
set_mapping 1
dev=$(loop_attach direct "$MNT/image")
if [ "$(getconf LONG_BIT)" = 32 ]; then
	is "the reason on 32 bits" "$(attr "$dev" loop/mapped_reason)" \
		"the disk can't be mapped to"
else
	wait_mapped "$dev" 4
	mapped=$(ios "$dev" mapped)
	counts mapped "$dev"
	[ "$(ios "$dev" mapped)" -gt "$mapped" ] ||
		fail "the flushes were not mapped"
fi
detach "$dev"
