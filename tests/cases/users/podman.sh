#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: Podman keeps its containers on a file system in an image, and a volume
#   in another.
# modes: drop-in in-tree
# machines: stable-drop-in stable-in-tree
# init: systemd
# long: yes
. tests/lib/users.sh

tree "$WORK/system"
image=$(mkimage 320M)
mkfs.xfs -q "$image"
mkdir "$WORK/storage"
mount -o loop "$image" "$WORK/storage"
later unmount "$WORK/storage"
ours "$(findmnt -n -o SOURCE "$WORK/storage")"
second=$(mkimage 32M)
mkfs.ext4 -q -F "$second"

pod() {
	podman --root "$WORK/storage/graph" --runroot "$WORK/storage/run" \
		--storage-driver overlay --cgroup-manager cgroupfs \
		--events-backend none "$@"
}

tar -C "$WORK/system" -c . | check "import" pod import - floop-test
later pod system reset --force
check "a volume that is an image" pod volume create --opt type=ext4 \
	--opt device="$second" --opt o=loop floop-volume
sum=$(sum_of "$WORK/system/usr/lib/noise")
out=$(pod run --rm --network none --volume floop-volume:/volume floop-test \
	/bin/sh -c "busybox sha256sum /usr/lib/noise
	busybox cp /usr/lib/noise /volume/copy
	busybox grep ' /volume ' /proc/mounts")
matches "run" "$out" "$sum */dev/loop* /volume ext4 *"
gone "$second"

# A container that has the device itself open
device=$(losetup --find --show "$second")
id=$(pod run --detach --network none --device "$device" floop-test \
	/bin/sh -c "exec 5<'$device'; exec busybox sleep 600")
later pod kill --all
held_by() {
	"$FLOOP" status --json "$device" >"$WORK/status"
	grep -q '"command": "busybox"' "$WORK/status"
}
wait_until 30 held_by
is "the container that has it open" \
	"$(sed -nE 's/^ *"container": "(.*)",$/\1/p' "$WORK/status")" "$id"
check "the container ends" pod rm --force --time 0 "$id"
check "detach" losetup --detach "$device"
gone "$second"
mount -o loop,ro "$second" /mnt
is "what it wrote there" "$(sum_of /mnt/copy)" "$sum"
umount /mnt
gone "$second"
