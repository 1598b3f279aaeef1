#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Usage: test-programs.sh [i386]. Build the programs of tests/programs inside
# the guest root, into build/programs/, or inside the one of 32 bits, into
# build/i386/programs/. A test machine builds what is missing, but emulated it
# takes a hundred times as long.

. "$(dirname "$0")/machine.sh"

out=$BUILD/programs
if [ "${1:-}" = i386 ]; then
	"$PROJECT/machine/i386-root.sh"
	ROOT=$BUILD/i386/root
	out=$BUILD/i386/programs
fi
locked test-programs
in_root make -s -k -C "$PROJECT/tests/programs" OUT="$out"
