#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: LOOP_CHANGE_FD or a detach by a user without rights to the image's
#   lease (uid 1000, root of a user namespace, root without CAP_LEASE) leaves no
#   lease on the old image: it can be opened for writing, round after round.
# modes: side-by-side
# machines: stable-side-by-side
# timeout: 400
. tests/lib/guard.sh
programs loopdev pattern

rounds=$(more 5)
user=(setpriv --reuid 1000 --regid 1000 --clear-groups)

# as WHO COMMAND... - with the device's node
as() {
	local who=$1
	shift
	udev_settle
	chown 1000 "$dev"
	case $who in
	"uid 1000") "${user[@]}" "$@" ;;
	"a user namespace") "${user[@]}" unshare --user --map-root-user "$@" ;;
	"no CAP_LEASE") setpriv --bounding-set -lease --inh-caps -lease "$@" ;;
	*) fail "as: who is $who?" ;;
	esac
}

# leases_of FILE - the number of leases on it, by /proc/locks
leases_of() {
	local inode
	inode=$(stat -c %i "$1")
	grep -cE "(LEASE|DELEG) .*:$inode " /proc/locks || true
}

# held_up WHO COMMAND... - run it as WHO, in a cgroup that reads next to nothing
# from the disk until let_go: $changer
held_up() {
	echo "$number rbps=512" >"$group/io.max"
	(
		echo "$BASHPID" >"$group/cgroup.procs"
		as "$@"
	) &
	changer=$!
	later stop_writes $changer
	later let_go
}

let_go() {
	echo "$number rbps=max" >"$group/io.max"
}

# in_the_midst - LOOP_CHANGE_FD closes the old image, then scans the new one for
# partitions, and releases the old file as it returns. During the scan the old
# file has no lease any more
in_the_midst() {
	wait_mapped "$dev"
	[ "$(leases_of "$MNT/0")" -gt 0 ] ||
		fail "$what: mapped without a lease"
	held_up "$who" loopdev change "$dev" "$MNT/1"
	wait_until 30 scans
	is "$what: leases on the old image" "$(leases_of "$MNT/0")" 0
	check "$what: it can be opened" opens "$MNT/0" 10
	let_go
	wait "$changer" || fail "$what: LOOP_CHANGE_FD"
	wait_mapped "$dev"
	check "$what: and back" as "$who" loopdev change "$dev" "$MNT/0"
}

# scans - does the task that changes images scan for partitions?
scans() {
	[ -e "/proc/$changer" ] || fail "$what: is through already"
	grep -qs bdev_disk_changed "/proc/$changer/stack" ||
		grep -qs bdev_disk_changed "/proc/$(pgrep -P "$changer")/stack"
}

# opens FILE SEED - for writing, by root
opens() {
	timeout 60 "$WORK/bin/pattern" write -q -b 4k -s "$2" "$1" 4k
}

[ -e /sys/fs/cgroup/cgroup.controllers ] ||
	mount -t cgroup2 cgroup2 /sys/fs/cgroup
echo "+io" >/sys/fs/cgroup/cgroup.subtree_control
group=/sys/fs/cgroup/change-fd
mkdir "$group"
later rmdir "$group"
disk=$(the_disk 1)
number=$(cat "/sys/block/${disk#/dev/}/dev")

for fs in $(file_systems xfs); do
	begin_fs "$fs"
	for who in "uid 1000" "a user namespace" "no CAP_LEASE"; do
		what="$fs: $who"
		written "$MNT/0" 1M 10
		written "$MNT/1" 1M 11
		chmod 666 "$MNT/0" "$MNT/1"
		# The owner of an image needs no capability
		[ "$who" != "no CAP_LEASE" ] || chown 1000 "$MNT/0" "$MNT/1"
		dev=$(attach --read-only --partscan "$MNT/0")
		in_the_midst
		for ((round = 1; round <= rounds; round++)); do
			old=$MNT/$(((round + 1) % 2)) new=$MNT/$((round % 2))
			wait_mapped "$dev"
			as "$who" loopdev change "$dev" "$new" ||
				fail "$what: round $round: LOOP_CHANGE_FD"
			opens "$old" $((10 + (round + 1) % 2)) ||
				fail "$what: round $round: the old image is held"
		done
		echo "ok: $what: $rounds times another image"
		wait_mapped "$dev"
		goes_mapped "$what: the last one" "$dev"
		check "$what: what it has" \
			pattern check -d -q -s $((10 + rounds % 2)) "$dev" 1M
		check "$what: detaches it" as "$who" loopdev detach "$dev"
		check "$what: it can be opened" opens "$new" 12
		rm "$MNT/0" "$MNT/1"
	done
	end_fs
done
