#!/bin/bash
# Build the programs of tests/programs inside the guest root, into build/programs/. The cases build
# what they find missing, but there, emulated, it takes a hundred times as long.

. "$(dirname "$0")/lib.sh"

locked test-programs
in_root make -s -C "$PROJECT/tests/programs" OUT="$BUILD/programs"
