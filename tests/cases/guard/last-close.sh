#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: The last close of a device doesn't wait for the image's file system,
#   though the guard does. Meanwhile others open the device and attach another
#   image to it. The process that detaches it, or closes it last, can be killed.
#   Without a fault the file system can be unmounted right after the detach.
# machines: lts-side-by-side stable-side-by-side
# cpus: 2
# timeout: 400
. tests/lib/guard.sh
programs loopdev pattern

# The guard's background work is in an fsync, or before it
waits_for_disk() {
	grep -qs begin_work /proc/[0-9]*/stack
}

# hang_guard - the disk hangs, with the guard of $dev in the middle of writing
# to it
hang_guard() {
	wait_mapped "$dev"
	udev_settle
	dmsetup suspend --noflush --nolockfs below
	# Neither O_TRUNC nor fsync: it only dirties pages
	check "$fs: another writes to the image" dd if=/dev/zero \
		of="$MNT/image" bs=64k count=1 conv=notrunc status=none
	wait_until 30 waits_for_disk
}

truncate -s 8M "$WORK/another"
for fs in ext4 xfs; do
	begin_mapped "$fs" 4M
	later dmsetup resume below
	number=${dev#"/dev/$PREFIX"}

	hang_guard
	loopdev detach "$dev" &
	detacher=$!
	wait_until 20 unbound "$dev"
	check "$fs: others open it" timeout 20 blockdev --getsize64 "$dev"
	check "$fs: and attach another" timeout 20 \
		loopdev attach -n "$number" "$WORK/another"
	check "$fs: which is there" timeout 20 cmp -n 8M "$dev" /dev/zero
	check "$fs: and is detached" timeout 20 loopdev detach "$dev"
	waits_for_disk || fail "$fs: the guard didn't wait for the disk"
	kill "$detacher" 2>/dev/null || true
	wait "$detacher" 2>/dev/null || true
	waits_for_disk || fail "$fs: the detaching process waited for the disk"
	dmsetup resume below
	wait_until 20 umount "$MNT"

	mount_at /dev/mapper/below "$MNT"
	dev=$(attach "$MNT/image")
	hang_guard
	loopdev detach "$dev" &
	detacher=$!
	wait_until 20 waits_in "$detacher" wait_closed
	is "$fs: the device is free" "$(bound "$dev" || echo yes)" yes
	dmsetup resume below
	wait "$detacher" || fail "$fs: it was not detached"
	check "$fs: the file system is free" umount "$MNT"

	mount_at /dev/mapper/below "$MNT"
	dev=$(attach "$MNT/image")
	hang_guard
	(exec 6<"$dev" && exec sleep infinity) &
	holder=$!
	wait_until 20 test -e "/proc/$holder/fd/6"
	loopdev detach -l "$dev"
	kill -KILL "$holder"
	wait_until 20 waits_or_is_gone "$holder" wait_closed
	[ ! -e "/proc/$holder" ] ||
		fail "$fs: the killed process waits for the disk"
	echo "ok: $fs: nor does a process killed with the device open"
	waits_for_disk || fail "$fs: the guard didn't wait for the disk"
	wait "$holder" 2>/dev/null || true
	dmsetup resume below
	wait_until 20 umount "$MNT"
	end_fs
done
