#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# All set-up of the test machine, in order; each step does nothing if its work
# is done already. Usage: setup.sh [--no-module]

dir=$(dirname "$0")
. "$dir/machine.sh"

"$dir/host-packages.sh"
"$dir/venv.sh"
"$dir/guest-root.sh"
[ "${1:-}" = --no-module ] && exit 0
"$dir/users-root.sh"
for kver in $(kernels); do
	"$dir/module.sh" "$kver" floop
	"$dir/module.sh" "$kver" loop
done
