#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Print the demo's table. Usage: table.sh SECONDS SPEEDS COSTS, files with a
# line for each driver; COSTS is empty where instructions can't be counted.

. "$(dirname "$0")/lib.sh"

seconds=$1 speeds=$2 costs=$3

rows()
{
	local way
	printf '\tround trip\tread\twrite\tinstructions\tinstructions\n'
	printf 'driver\tseconds\tI/Os a s\tI/Os a s\ta read\ta write\n'
	paste <(for way in "${ways[@]}"; do title "$way"; done) "$seconds" \
		"$speeds" <(if [ -s "$costs" ]; then
			cat "$costs"
		else
			printf -- '-\t-\n%.0s' "${ways[@]}"
		fi)
}

say "What the user gains"
rows | column -t -s $'\t' -R 2,3,4,5,6
if [ -s "$costs" ]; then
	cat <<-'END'

		The I/O is random and direct, 4 KiB at a depth of 16: for 3 s on
		the emulated disk, where only the ratios count, and on a busy
		host not even they. The instructions are those of 4,000 I/Os to
		a RAM disk, fio's own included.
	END
else
	cat <<-'END'

		The I/O is random and direct, 4 KiB at a depth of 16, for 3 s.
		There are no instructions: to count them takes an emulated CPU
		(make demo without NATIVE=1).
	END
fi
printf 'Each is one run: docs/benchmarks.md has many.\n'
