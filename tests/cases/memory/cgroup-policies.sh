#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: io.max works on a device, and io.cost is refused for it
# modes: side-by-side
. tests/guest/lib.sh
. tests/programs/lib.sh
programs loopdev pattern

[ -e /sys/fs/cgroup/cgroup.controllers ] || mount -t cgroup2 cgroup2 /sys/fs/cgroup
echo "+io" >/sys/fs/cgroup/cgroup.subtree_control
group=/sys/fs/cgroup/policies
mkdir "$group"
later rmdir "$group"
on_disk ext4
pattern write -q "$MNT/image" 8M
dev=$(loop_attach direct "$MNT/image")
later detach "$dev"
number=$(<"/sys/block/${dev#/dev/}/dev")

# reads - in the cgroup
reads() (
	echo "$BASHPID" >"$group/cgroup.procs"
	exec dd if="$dev" of=/dev/null bs=64k count=8 iflag=direct status=none
)

echo "$number rbps=4096" >"$group/io.max"
reads &
slow=$!
pattern check -q -d "$dev" 8M
kill -0 "$slow" 2>/dev/null || fail "io.max: 512 KiB at 4 KiB/s were read before 8 MiB without a limit"
echo "ok: io.max: slows down who it is for"
echo "$number rbps=max" >"$group/io.max"
wait "$slow"

refused "io.cost" "*not supported*" \
	bash -c "echo '$number enable=1' >/sys/fs/cgroup/io.cost.qos"
