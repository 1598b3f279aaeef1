#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: A read of a mapped device that asks to be polled for, and that nobody
#   polls for, holds up neither a change of the image's blocks, nor a discard,
#   nor the end of mapping.
# modes: side-by-side
# machines: stable-side-by-side
# timeout: 240
. tests/lib/guard.sh
programs loopdev pattern other

disk=$(the_disk 1)
name=${disk#/dev/}

poll_queues "$disk"
# After this time the disk's driver looks for ended I/O by itself: not during
# this case
echo 3600000 >"/sys/block/$name/queue/io_timeout"

is_gone() {
	[ ! -e "/proc/$1" ]
}

# stop_poller - its ring is polled at its end
stop_poller() {
	[ ! -e "/proc/$poller" ] || kill "$poller" 2>/dev/null
	wait "$poller" 2>/dev/null || true
}

# ends WHAT COMMAND... - while a read is in flight that nobody polls for
ends() {
	local what=$1 said
	shift
	wait_mapped "$dev" 5
	coproc POLLER { other poll "$dev"; }
	# shellcheck disable=SC2153 # bash sets it
	poller=$POLLER_PID
	later stop_poller
	read -r -u "${POLLER[0]}" said
	is "$fs: a polled read" "$said" submitted
	"$@" &
	pid=$!
	(wait_until 60 is_gone "$pid") ||
		fail "$fs: $what waits for a task that doesn't poll"
	wait "$pid" || fail "$fs: $what"
	echo "ok: $fs: $what"
	stop_poller
}

mapping() {
	echo "$1" >"/sys/block/${dev#/dev/}/loop/mapping"
}

for fs in $(file_systems xfs); do
	# The disk itself, and a device mapper's device on it
	where=$disk
	if [ "$fs" = xfs ]; then
		carve "$disk" below 0 700
		where=/dev/mapper/below
	fi
	on_disk "$fs" "$where"
	written "$MNT/image" 8M 1
	dev=$(attach "$MNT/image")
	ends "a hole" xfs_io -c "fpunch 1m 64k" "$MNT/image"
	ends "a discard" blkdiscard -o 2M -l 64k "$dev"
	ends "truncate" other truncate "$MNT/image" 7M
	ends "the end of mapping" mapping 0
	detach "$dev"
	unmount "$MNT"
done
