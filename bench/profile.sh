#!/bin/bash
# Where the instructions of one cell of the table go, function by function.
# Usage: bench/profile.sh [--kernel lts|stable] TARGET PATTERN DEPTH [--ios N] [--least N]
# as in: bench/profile.sh floop-direct randread 32
# TARGET: ram, file, loop-direct, floop-direct, loop-buffered, floop-buffered
# PATTERN: randread, randwrite

set -eu
kernel=stable
if [ "${1:-}" = --kernel ]; then
	kernel=${2:?lts or stable}
	shift 2
fi
cd "$(dirname "$0")/.."
exec ./vm --kernel "$kernel" --icount --memory 2G -- python3 bench/sample.py "$@"
