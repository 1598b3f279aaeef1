# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
# A process that keeps memory short.
[ -z "${HOG_SH-}" ] || return 0
HOG_SH=1
. tests/lib/case.sh

# killed - how many processes have been, for want of memory
killed() {
	awk '$1 == "oom_kill" { print $2 }' /proc/vmstat
}

# begin_hog SIZE - it takes as much, over and over
begin_hog() {
	hog "$1" &
	hog=$!
	killed_before=$(killed)
}

# end_hog - nobody has been killed
end_hog() {
	is "processes killed for want of memory" "$(killed)" "$killed_before"
	kill "$hog"
	wait "$hog" 2>/dev/null || true
}
