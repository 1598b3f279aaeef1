#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: Nothing is lost by a detach with I/O in flight, by autoclear at the
#   last close of a dirty device, or by removing the module afterwards.
# modes: side-by-side
# machines: lts-side-by-side
# cpus: 2
# timeout: 400
. tests/lib/case.sh
programs loopdev pattern

detached() {
	! bound "$1"
}

# writes DEVICE - how many it has completed, in $writes. No process is started
# to find out: the writers would be done before it said so
writes() {
	local stat
	read -ra stat <"/sys/block/${1##*/}/stat"
	writes=${stat[4]}
}

more_writes() {
	writes "$1"
	[ "$writes" -gt "$2" ]
}

on_disk ext4
for how in direct buffered; do
	image=$MNT/image
	mkimage 24M "$image" >/dev/null

	# A lazy detach: openers can use the device until they close it
	dev=$(loop_attach "$how" "$image")
	exec 9<"$dev"
	writes "$dev"
	for part in 0 1 2; do
		direct=-d
		[ "$part" != 1 ] || direct=-q
		pattern write -q "$direct" -b 32k -s $((20 + part)) \
			-o $((part * 8))M "$dev" 8M &
		pids[part]=$!
	done
	wait_until 20 more_writes "$dev" "$writes"
	loopdev detach -l "$dev"
	for part in 0 1 2; do
		wait "${pids[part]}" ||
			fail "$how: a writer failed as the device was detached"
	done
	bound "$dev" || fail "$how: detached while open"
	exec 9<&-
	wait_until 60 detached "$dev"
	for part in 0 1 2; do
		check "$how: lazily detached: the image" \
			pattern check -q -s $((20 + part)) -o $((part * 8))M \
			"$image" 8M
	done

	# Autoclear: the last close writes the device's page cache out first
	mkimage 24M "$image" >/dev/null
	dev=$(loop_attach "$how" "$image")
	exec 9<"$dev"
	loopdev autoclear "$dev"
	pattern write -q -n -s 30 "$dev" 24M
	bound "$dev" || fail "detached while open"
	exec 9<&-
	wait_until 60 detached "$dev"
	check "$how: autoclear: the image" pattern check -q -s 30 "$image" 24M

	# A file system with autoclear, dirty to its last moment
	mkimage 64M "$image" >/dev/null
	dev=$(loop_attach "$how" "$image")
	make_fs ext4 "$dev"
	mkdir -p "$WORK/up"
	mount "$dev" "$WORK/up"
	loopdev detach -l "$dev"
	bound "$dev" || fail "detached while mounted"
	pattern write -q -n -s 31 "$WORK/up/file" 16M
	unmount "$WORK/up"
	wait_until 60 detached "$dev"
	dev=$(loop_attach "$how" "$image")
	check "$how: the file system is clean" fsck.ext4 -fn "$dev"
	mount "$dev" "$WORK/up"
	check "$how: its file" pattern check -q -s 31 "$WORK/up/file" 16M
	unmount "$WORK/up"
	loopdev detach "$dev"
done

udev_settle 2>/dev/null || true
for _ in 1 2 3 4 5 6 7 8 9 10; do
	rmmod "$MODULE" && break
	sleep 0.3
done
[ ! -e "/sys/module/$MODULE" ] || fail "the module cannot be removed"
echo "ok: the module is removed"
insert
wait_until 10 test -e "$CTL"
dev=$(loop_attach direct "$MNT/image")
check "the module is back, and so is the image" fsck.ext4 -fn "$dev"
loopdev detach "$dev"
