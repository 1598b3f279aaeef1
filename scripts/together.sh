#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Usage: together.sh TARGET... Run make for each of these words at the same
# time, each with its output as it comes. Fails when all have ended, if one
# failed. One waits for the network while another has the CPUs. Whoever runs it
# has made setup-host.

set -euo pipefail

# The jobs of a `make -j` above aren't theirs.
unset MAKEFLAGS MFLAGS

running=()
for targets; do
	# shellcheck disable=SC2086 # several targets in a word
	make --no-print-directory --old-file=setup-host $targets &
	running+=($!)
done
failed=0
for pid in "${running[@]}"; do
	wait "$pid" || failed=1
done
exit "$failed"
