#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Usage: setup.sh [--no-module]. Do all set-up of the test machine, in order; a
# step whose work is done already does nothing. With LONG the users' root, too,
# which otherwise ./vm makes when it is asked for. --no-module: leave out the
# modules and the users' root.

dir=$(dirname "$0")
. "$dir/machine.sh"

"$dir/host-packages.sh"
"$dir/venv.sh"
users=
[ "${1:-}" = --no-module ] || users=${LONG-}
if [ -n "$users" ]; then
	# It has no use for all CPUs, nor has the guest root.
	"$dir/users-root.sh" --base &
	base=$!
fi
"$dir/guest-root.sh"
"$dir/emulator.sh"
[ "${1:-}" = --no-module ] && exit 0
for kver in $(kernels); do
	"$dir/module.sh" "$kver" floop
done
if [ -n "$users" ]; then
	wait "$base"
	"$dir/users-root.sh"
fi
