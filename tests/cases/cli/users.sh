#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: floop status names who has a device: device-mapper, swap, a mount that
#   only another mount namespace has, a container of a pod; and lists users of
#   partitions with them.
# machines: stable-side-by-side
# timeout: 240
. tests/lib/cli.sh
. tests/lib/cgroups.sh

# users DEVICE - the lines of status, without what may look at it just now
users() {
	udev_settle
	"$FLOOP" status "$1" | sed -n 's/^used: *//p'
}

image=$(mkimage 64M)
dev=$("$FLOOP" attach "$image")
echo "0 32768 linear $dev 0" | dmsetup create floop-users
later end_dm
end_dm() {
	dm_remove floop-users || true
}
is "device-mapper" "$(users "$dev")" \
	"held by $(basename "$(realpath /dev/mapper/floop-users)") (floop-users)"
is "its kind" "$(status "$dev" kind)" dm
dm_remove floop-users
is "nobody" "$(users "$dev")" ""

mkswap -q "$dev"
swapon "$dev"
later swapoff -a
is "swap" "$(users "$dev")" "swap on $dev"
swapoff "$dev"

udev_settle
make_fs ext4 "$dev"
mkdir "$WORK/elsewhere"
unshare --mount sh -c "mount '$dev' '$WORK/elsewhere' &&
	: >'$WORK/ready' && exec sleep 600" &
other=$!
later end_other
end_other() {
	kill "$other" 2>/dev/null || true
}
wait_until 30 test -e "$WORK/ready"
matches "another mount namespace" "$(users "$dev")" \
	"mounted on $WORK/elsewhere in the mount namespace of sleep ?process*"
is "not mounted here" "$(status "$dev" mounts)" "[]"
kill "$other"
wait "$other" || true
is "nobody again" "$(users "$dev")" ""

# A container of a pod, by the names that kubelet and containerd give groups
mount_cgroups
uid=0a1b2c3d-0000-4000-8000-00000000000a
id=$(printf '%064d' 7)
pod=kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod${uid//-/_}
for group in kubepods.slice kubepods.slice/kubepods-burstable.slice \
	"$pod.slice" "$pod.slice/cri-containerd-$id.scope"; do
	make_groups "$group"
done
group=$CGROUPS/$pod.slice/cri-containerd-$id.scope
sh -c "echo \$\$ >$group/cgroup.procs && exec sleep 600" 7<"$dev" &
other=$!
wait_until 30 grep -q "$other" "$group/cgroup.procs"
udev_settle
is "the pod" "$(status "$dev" pod)" "$uid"
is "the container" "$(status "$dev" container)" "$id"
kill "$other"
wait "$other" || true
check "detach" "$FLOOP" detach "$dev"
