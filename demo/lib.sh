#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Shared by the demo's scripts that run in the machine, or (NATIVE=1) here. To
# be sourced, not run.

set -euo pipefail

project=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# The command that was built here, not one that is installed
floop()
{
	"$project/cli/target/release/floop" "$@"
}

say()
{
	printf '\n# %s\n' "$*"
}

# run COMMAND...: show it and run it.
run()
{
	printf '$ %s\n' "$*"
	"$@"
}

# The three ways to attach the image: the table has a line for each.
# shellcheck disable=SC2034 # the scripts use it
ways=(loop loop-direct floop)

title()
{
	case $1 in
	loop) echo 'loop, as losetup has it' ;;
	loop-direct) echo 'loop, direct I/O' ;;
	floop) echo 'floop, mapped' ;;
	esac
}

# attach WAY IMAGE [PARTITIONS]: the device's name is left in $device.
attach()
{
	local command
	case $1 in
	loop) command=(losetup -f --show ${3:+-P}) ;;
	loop-direct) command=(losetup -f --show --direct-io=on ${3:+-P}) ;;
	floop) command=(floop attach --mapping on ${3:+--partscan}) ;;
	esac
	printf '$ %s\n' "${command[*]} $2"
	device=$("${command[@]}" "$2")
	printf '%s\n' "$device"
}

# detach WAY
detach()
{
	case $1 in
	floop) run floop detach "$device" ;;
	*) run losetup -d "$device" ;;
	esac
}

# unload MODULE: udev may still look at a device that has just been detached.
unload()
{
	local _
	udevadm settle
	for _ in {1..50}; do
		! rmmod "$1" 2> /dev/null || return 0
		sleep 0.2
	done
	rmmod "$1"
}
