#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: io.max works on a device, and io.cost is refused for it.
# modes: side-by-side
# machines: stable-side-by-side
. tests/lib/cgroups.sh
programs loopdev pattern

mount_cgroups
make_groups policies
group=$CGROUPS/policies
on_disk ext4
pattern write -q "$MNT/image" 8M
dev=$(loop_attach direct "$MNT/image")
later detach "$dev"
number=$(<"/sys/block/${dev#/dev/}/dev")

# reads - in the cgroup
reads() {
	in_group policies \
		dd if="$dev" of=/dev/null bs=64k count=8 \
		iflag=direct status=none
}

echo "$number rbps=4096" >"$group/io.max"
reads &
slow=$!
pattern check -q -d "$dev" 8M
kill -0 "$slow" 2>/dev/null ||
	fail "io.max: 512 KiB at 4 KiB/s were read before 8 MiB without a limit"
echo "ok: io.max: slows down its cgroup"
echo "$number rbps=max" >"$group/io.max"
wait "$slow"

refused "io.cost" "*not supported*" \
	bash -c "echo '$number enable=1' >$CGROUPS/io.cost.qos"
