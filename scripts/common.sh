#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Shared by all scripts of the project: its folders, progress for long steps,
# and the lock that keeps two set-ups of one project folder apart. To be
# sourced, not run.

set -euo pipefail

PROJECT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
BUILD=$PROJECT/build
mkdir -p "$BUILD/logs"

# An ordinary user's PATH may lack the sbin folders.
export PATH=$PATH:/usr/sbin:/sbin

die()
{
	printf '%s: %s\n' "${0##*/}" "$*" >&2
	exit 1
}

# as_root COMMAND...: run it as root, by sudo unless we are root.
as_root()
{
	if [ "$(id -u)" = 0 ]; then
		"$@"
	elif command -v sudo > /dev/null; then
		sudo "$@"
	else
		die "root is needed for: $* (run as root, or install sudo)"
	fi
}

# installed PACKAGE: is Debian's package of that name installed?
installed()
{
	local state
	state=$(dpkg-query -W -f '${db:Status-Status}' "$1" 2> /dev/null)
	[ "$state" = installed ]
}

# version: print floop's version, which is set in Cargo.toml.
version()
{
	sed -n 's/^version *= *"\(.*\)"/\1/p' "$PROJECT/cli/Cargo.toml" |
		head -n 1
}

# locked NAME: hold the lock build/NAME.lock until this script ends.
locked()
{
	exec 9> "$BUILD/$1.lock"
	if ! flock -n 9; then
		printf '%s: waiting for another set-up of %s\n' \
			"${0##*/}" "$1" >&2
		flock 9
	fi
}

# progress PID LOG START [EVERY]: wait for that child, whose output is LOG. On a
# terminal a line is written over each second: START, the time, the last line of
# LOG. It ends as START alone. Without a terminal a line follows every EVERY
# seconds, or none.
progress()
{
	local pid=$1 log=$2 start=$3 every=${4:-0} begun=$SECONDS tick=0
	local width=90 begin='' end=$'\n' text
	if [ -t 1 ]; then
		begin=$'\r\e[K' end='' every=1
		width=$(stty size <&1 2> /dev/null | cut -d ' ' -f 2)
		[ "${width:-0}" -gt 0 ] || width=80
		width=$((width - ${#start} - 12))
		[ $width -gt 0 ] || width=0
	fi
	while kill -0 "$pid" 2> /dev/null; do
		sleep 0.2
		tick=$((tick + 1))
		if [ "$every" = 0 ] || [ $((tick % (every * 5))) != 0 ]; then
			continue
		fi
		text=$(tail -n 1 "$log" | tr -d '\r' | tr '[:cntrl:]' ' ')
		printf '%s%s   %3d s  %.*s%s' "$begin" "$start" \
			$((SECONDS - begun)) "$width" "$text" "$end"
	done
	[ -z "$begin" ] || printf '%s%s' "$begin" "$start"
	wait "$pid"
}

# step TITLE COMMAND...: run COMMAND with its output in build/logs/, and show
# its progress. If it fails, print the end of the output.
step()
{
	local title=$1 name log start=$SECONDS
	shift
	name=$(printf '%s' "${title%% (*}" | tr -cs 'a-zA-Z0-9' '-')
	log=$BUILD/logs/setup-$name.log
	printf '== %s\n' "$title" >&2
	(trap - INT QUIT; "$@") > "$log" 2>&1 < /dev/null 9>&- &
	if ! progress $! "$log" '' 5 >&2; then
		tail -n 30 "$log" >&2
		die "failed: $title (all of its output: $log)"
	fi
	printf '   done in %d s\n' $((SECONDS - start)) >&2
}
