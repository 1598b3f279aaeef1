#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: Mapping can be turned off and on while the last close detaches the
#   device, again and again.
# modes: side-by-side
# machines: stable-side-by-side
# cpus: 2
# timeout: 240
. tests/lib/guard.sh
programs loopdev pattern

# switch DEVICE - on and off, whether it is attached or not
switch() {
	local mapping=/sys/block/${1#/dev/}/loop/mapping

	while :; do
		echo 0 >"$mapping" || true
		echo 1 >"$mapping" || true
	done 2>/dev/null
}

stop() {
	kill "$1" 2>/dev/null || true
	wait "$1" || true
}

for fs in $(file_systems ext4); do
	begin_fs "$fs"
	written "$MNT/image" 4M 1
	dev=$(attach "$MNT/image")
	number=${dev#"/dev/$PREFIX"}
	detach "$dev"
	switch "$dev" &
	switcher=$!
	later stop "$switcher"
	attached=0
	end=$((SECONDS + 10))
	while [ "$SECONDS" -lt "$end" ]; do
		# This process is the last opener, unless udev looks at it
		if loopdev attach -a -n "$number" "$MNT/image"; then
			attached=$((attached + 1))
		fi >/dev/null 2>&1
	done
	stop "$switcher"
	[ "$attached" -gt 0 ] || fail "$fs: it was never attached"
	echo "ok: $fs: attached $attached times"
	wait_until 20 unbound "$dev"
	dev=$(attach "$MNT/image")
	wait_mapped "$dev"
	detach "$dev"
	end_fs
done
