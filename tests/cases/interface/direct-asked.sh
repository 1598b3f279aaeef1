#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: With direct=asked, as on the in-tree driver, I/O is direct only where
#   that is asked for (LO_FLAGS_DIRECT_IO, O_DIRECT, LOOP_SET_DIRECT_IO), and
#   sectors have 512 bytes. With direct=always it is direct wherever it can be,
#   until it is turned off.
# modes: side-by-side drop-in
# machines: lts-side-by-side stable-drop-in
. tests/lib/cli.sh

parameter=/sys/module/$MODULE/parameters/direct

# direct DEVICE 0|1 - is it, by sysfs and by its flags? Detaches it
direct() {
	local flags
	is "$what: loop/dio" "$(dio "$1")" "$2"
	flags=$(loopdev status "$1" | sed "s/.* flags=\([0-9]*\) .*/\1/")
	is "$what: LO_FLAGS_DIRECT_IO" "$(((flags & 16) / 16))" "$2"
	detach "$1"
}

is "unless told otherwise" "$(<"$parameter")" always
later sh -c "echo always >$parameter"
refused "another word" "*" sh -c "echo maybe >$parameter"
on_disk ext4
image=$(mkimage 8M "$MNT/image")

what="always"
direct "$(attach "$image")" 1
what="turned off, then refused"
device=$(attach "$image")
loopdev direct "$device" 0
loopdev set -o 1000 "$device"
refused "$what" "*" loopdev direct "$device" 1
loopdev set -o 0 "$device"
direct "$device" 0
echo asked >"$parameter"
is "the parameter" "$(<"$parameter")" asked
what="nobody asks"
device=$(attach "$image")
matches "$what: because" "$(attr "$device" loop/dio_reason)" \
	"not asked for, and the parameter direct is asked"
is "$what: floop status" "$(status "$device" direct_reason)" \
	"$(attr "$device" loop/dio_reason)"
direct "$device" 0
what="the flag"
direct "$(attach --direct "$image")" 1
what="LOOP_SET_DIRECT_IO"
device=$(attach "$image")
loopdev direct "$device" 1
direct "$device" 1

disk=$(attach --block-size 4096 "$(mkimage 256M)")
later detach "$disk"
on_disk ext4 "$disk"
image=$(mkimage 8M "$MNT/image")
mkfs.ext4 -q -b 4096 "$image"
what="on a disk of larger sectors"
device=$(attach "$image")
is "$what: sectors" "$(attr "$device" queue/logical_block_size)" 512
direct "$device" 0
what="on a disk of larger sectors, the flag"
device=$(attach --direct "$image")
is "$what: sectors" "$(attr "$device" queue/logical_block_size)" 4096
direct "$device" 1
