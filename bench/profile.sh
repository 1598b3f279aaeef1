#!/bin/bash
# Where the instructions of a cell of the table go, function by function; one column a target.
# Usage: bench/profile.sh [--kernel lts|stable] PATTERN DEPTH TARGET... [--ios N] [--least N]
# as in: bench/profile.sh randread 32 floop-direct loop-direct
# PATTERN: randread, randwrite, or sparse: randwrite to an image that is half written
# TARGET: ram, file, dm-linear, floop-mapped, loop-direct, floop-direct, loop-buffered, floop-buffered

set -eu
kernel=stable
if [ "${1:-}" = --kernel ]; then
	kernel=${2:?lts or stable}
	shift 2
fi
cd "$(dirname "$0")/.."
exec ./vm --kernel "$kernel" --icount --memory 2G -- python3 bench/sample.py "$@"
