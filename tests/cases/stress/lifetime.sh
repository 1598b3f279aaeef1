#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: With mapping on, everything runs against everything: attach, detach,
#   another image, another size, status, direct I/O, mapping off and on, sysfs,
#   last close, autoclear, removal, all that breaks a lease, and I/O. It runs as
#   root, as the nodes' group, as root of a user namespace, without CAP_LEASE
#   and under an LSM that refuses leases, on ext4 and xfs, and with most windows
#   of the debug build open. Nothing hangs, the kernel reports nothing, and all
#   of it can be removed.
# modes: side-by-side
# machines: stable-side-by-side
# debug: also
# cpus: 2
# module: debug
# timeout: 500
. tests/lib/case.sh
programs stress refuse
seed
chmod 711 "$WORK"

# load MODULE-FILE - in place of the one that is there, which must go
load() {
	local i
	udev_settle
	for ((i = 0; i < 20; i++)); do
		rmmod "$MODULE" 2>/dev/null && break
		sleep 0.5
	done
	[ ! -e "/sys/module/$MODULE" ] || fail "the module cannot be removed"
	insert "$1"
	wait_until 30 test -e "$CTL"
	set_mapping 1
}

# windows BITS MILLISECONDS - where the debug build waits (rules.h), and how
# long
windows() {
	echo "$2" >"/sys/module/$MODULE/parameters/window_ms"
	echo "$1" >"/sys/module/$MODULE/parameters/windows"
}

# on FS SECONDS EPOCHS
on() {
	local fs=$1 disk
	disk=$(the_disk 1)
	make_fs "$fs" "$disk"
	mount_at "$disk" "$WORK/$fs"
	mkdir "$WORK/$fs/images"
	chown 1000:1000 "$WORK/$fs/images"
	stress -m "$3" -t "$2" -s "$SEED" -b 40 "$WORK/$fs/images"
	rmdir "$WORK/$fs/images"
	unmount "$WORK/$fs"
	check "$fs is clean" fsck_of "$fs" "$disk"
	SEED=$((SEED + 1))
}

# as_it_was - the module that was there, which maps nothing
as_it_was() {
	load "$MODULE_FILE"
	set_mapping 0
}

# Debian's kernels can keep users from having user namespaces
unprivileged=/proc/sys/kernel/unprivileged_userns_clone
if [ -e "$unprivileged" ]; then
	later sh -c "echo $(<"$unprivileged") >$unprivileged"
	echo 1 >"$unprivileged"
fi

later as_it_was
set_mapping 1
for fs in $(file_systems ext4); do
	echo "--- $fs"
	on "$fs" "$(more 2 60)" 3
done

# The LSM refuses half of all leases, and every request to drop one that asks
# it. A kernel without BPF has no such LSM: there the lack of CAP_LEASE has to
# do.
mountpoint -q /sys/kernel/security || {
	mount -t securityfs none /sys/kernel/security 2>/dev/null &&
		later umount /sys/kernel/security
} || echo "this kernel has no LSMs"
if refuse -q; then
	echo "--- xfs, with an LSM that refuses"
	refuse >"$WORK/refuse" &
	refuser=$!
	wait_until 30 grep -q refusing "$WORK/refuse"
	on xfs "$(more 2 30)" 2
	kill $refuser
	wait $refuser || true
fi

load "${MODULE_FILE%/*}/floop-debug.ko"
# RESUME, REMAP to DRAIN, and CHANGE; then END and SUBMIT, which every mapped
# I/O passes
for bits in "0x17d 20" ${LONG:+"0x82 2"}; do
	for fs in $(file_systems xfs); do
		echo "--- $fs, windows ${bits% *}"
		windows "${bits% *}" "${bits#* }"
		on "$fs" "$(more 1 40)" 2
	done
done
