#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: The kernel accepts an io.latency target for a device. Once it is used,
#   the log says that it has no effect.
# modes: side-by-side
# debug: only
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

said="${dev#/dev/}: io.latency has no effect"
dmesg | grep -q "$said" && fail "the log says it without a target"
echo "$number target=1000" >"$group/io.latency"
reads
sync "$dev"
dmesg | grep -q "$said" || fail "the log doesn't say it"
echo "ok: io.latency: the log says that it has no effect"
echo "$number target=0" >"$group/io.latency"
