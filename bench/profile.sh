#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Where the instructions of a cell of the table go, function by function; one
# column a peer. Usage:
#   bench/profile.sh [--kernel lts|stable] PATTERN DEPTH PEER...
#     [--fs xfs|ext4] [--ios N] [--least N]
# as in: bench/profile.sh randread 32 floop-file loop-direct
# PATTERN: randread, randwrite, read, write; sparse: randwrite to an image that
# is half written; or clone: randread of one whose clone is kept, on xfs. PEER:
# raw, file, dm-linear, floop-mapped, loop-direct, ublk, ... (`make bench
# ARGS=--help` lists them).

set -eu
kernel=stable
if [ "${1:-}" = --kernel ]; then
	kernel=${2:?lts or stable}
	shift 2
fi
cd "$(dirname "$0")/.."
exec ./vm --bench --kernel "$kernel" --icount --memory 6G -- \
	env PYTHONPATH=bench python3 -m guest.sample "$@"
