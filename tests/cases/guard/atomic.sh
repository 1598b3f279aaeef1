#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: Atomic writes to an image on xfs move blocks without waiting for direct
#   I/O in flight. They wait for mapped writes that are held back, however long
#   (fs.lease-break-time doesn't end it), and no write lands in other files'
#   blocks. xfs by itself doesn't wait (7.3). Kernel 6.12 has no such writes.
# modes: side-by-side
# machines: stable-side-by-side lts-side-by-side
# timeout: 400
. tests/lib/guard.sh
programs loopdev pattern other

fs=xfs
begin_tight_xfs 1
written "$MNT/image" 4M 1
if [ "$KERNEL" = lts ]; then
	refused "atomic writes" "*open*pwritev2: *not supported*" \
		other atomic "$MNT/image" 0 4 64k 64k
	check "the file" pattern check -q -s 1 "$MNT/image" 4M
	end_fs
	exit 0
fi

[ -e /sys/fs/cgroup/cgroup.controllers ] ||
	mount -t cgroup2 cgroup2 /sys/fs/cgroup
echo "+io" >/sys/fs/cgroup/cgroup.subtree_control
group=/sys/fs/cgroup/atomic
mkdir "$group"
later rmdir "$group"
disk=$(the_disk 1)
number=$(cat "/sys/block/${disk#/dev/}/dev")

let_go() {
	echo "$number wbps=max" >"$group/io.max"
}

# hold_back COMMAND... - whose writes the disk doesn't get, until let_go; $held
hold_back() {
	echo "$number wbps=4096" >"$group/io.max"
	(
		echo "$BASHPID" >"$group/cgroup.procs"
		exec "$@"
	) >"$WORK/held" &
	held=$!
	later stop_writes $held
	later let_go
	wait_until 20 grep -q submitted "$WORK/held"
}

# After this time the kernel removes a lease that is still held, but not this
# one
sysctl=/proc/sys/fs/lease-break-time
later sh -c "echo $(<$sysctl) >$sysctl"
echo 1 >$sysctl

fill_up 6
dev=$(attach "$MNT/image")
wait_mapped "$dev"
udev_settle
mapped=$(ios "$dev" mapped)
hold_back other aio "$dev" 0 3 2M 64k
[ "$(ios "$dev" mapped)" -ge $((mapped + 32)) ] ||
	fail "the writes were not mapped"

other atomic "$MNT/image" 0 4 2M 64k >"$WORK/out" 2>&1 &
opener=$!
later stop_writes $opener
wait_until 20 grep -q open "$WORK/out"
wait_until 60 waits_or_is_gone $opener __break_lease
sleep 3
waited=no
if [ -e "/proc/$opener" ]; then
	waited=yes
	[ -e "/proc/$held" ] || fail "the mapped writes were not held back"
	let_go
	wait "$held" || fail "mapped writes: $(cat "$WORK/held")"
fi
wait "$opener" || fail "atomic writes: $(cat "$WORK/out")"
others_file 4
if [ $waited = no ]; then
	[ -e "/proc/$held" ] || fail "the mapped writes were not held back"
	let_go
	wait "$held" || fail "mapped writes: $(cat "$WORK/held")"
fi
others_file_is_right "written late"
is "atomic writes waited for mapped ones" $waited yes
check "they came last" pattern check -q -s 4 "$MNT/image" 2M
check "so the device says" pattern check -d -q -s 4 "$dev" 2M
detach "$dev"
end_fs

# docs/safety.md says so, and has to change when this does
carve "$disk" plain 400 400
is "xfs by itself" "$(tests/lib/xfs-atomic.sh /dev/mapper/plain | tail -n 1)" \
	"another file has been written to"
