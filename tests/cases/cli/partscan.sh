#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: After floop attach --partscan of a real GPT the partitions' nodes are
#   there. They hold file systems, and status lists them.
# machines: stable-drop-in
# timeout: 240
. tests/lib/cli.sh

image=$(mkimage 96M)
check "a GPT with two partitions" sfdisk -q "$image" <<-'END'
	label: gpt
	size=32MiB, type=uefi
	type=linux
END

dev=$("$FLOOP" attach "$image")
[ ! -e "/sys/block/${dev#/dev/}/${dev#/dev/}p1" ] ||
	fail "partitions without --partscan"
floop_detach "$dev"

for again in 1 2 3; do
	dev=$("$FLOOP" attach --partscan "$image" 2>"$WORK/stderr")
	is "attach $again complains of nothing" "$(cat "$WORK/stderr")" ""
	check "partition 1 is there" [ -b "${dev}p1" ]
	check "partition 2 is there" [ -b "${dev}p2" ]
	is "udev is done with partition 2" "$(stat -c %G "${dev}p2")" disk
	udev_settle
	check "detach $again" "$FLOOP" detach "$dev"
done

dev=$("$FLOOP" attach --partscan "$image")
is "status: partscan" "$(status "$dev" partscan)" true
is "status: partitions" \
	"$("$FLOOP" status --json "$dev" | fields device | xargs)" \
	"$dev ${dev}p1 ${dev}p2"
is "status: where they begin" \
	"$("$FLOOP" status --json "$dev" | fields start | xargs)" \
	"$((1 << 20)) $((33 << 20))"
check "mkfs.vfat" mkfs.vfat "${dev}p1"
make_fs ext4 "${dev}p2"
mount_at "${dev}p2" "$WORK/mnt"
matches "status: where it is mounted" "$("$FLOOP" status "$dev")" \
	"*used:*mounted on $WORK/mnt*"
ends_with 7 "floop: ${dev}p1: is a partition of $dev; give $dev itself" \
	detach "${dev}p1"
noise "$WORK/mnt/file" 4
sum=$(sum_of "$WORK/mnt/file")

result=$("$FLOOP" detach "$dev" 2>&1)
matches "detach in use" "$result" \
	"*in use: mounted on $WORK/mnt*when its last user closes it*"
bound "$dev" || fail "it is detached though it is mounted"
unmount "$WORK/mnt"
wait_until 10 unbound "$dev"

dev=$("$FLOOP" attach --partscan --read-only "$image")
mount_at "${dev}p2" "$WORK/mnt" -o ro,noload
is "what was written is there" "$(sum_of "$WORK/mnt/file")" "$sum"
unmount "$WORK/mnt"
check "detach" "$FLOOP" detach "$image"

warning=$("$FLOOP" attach --partscan --sector-size 4096 \
	"$image" 2>&1 >"$WORK/device")
matches "the wrong sector size" "$warning" \
	"floop: warning: *holds a GPT made for 512-byte sectors, but the device has sectors of 4096*"
check "detach" "$FLOOP" detach "$(cat "$WORK/device")"
