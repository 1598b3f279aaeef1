#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: Somebody who may neither read nor write an image holds its inode's lock
#   for ever: FS_IOC_FIEMAP stores to memory that is never provided. A chmod
#   waits behind it, and the driver, which asks where blocks are, behind that.
#   Mapping can be turned off, the device detached and used again. Meanwhile the
#   module can't be unloaded. When the answer comes, all is let go of.
# modes: side-by-side
# machines: stable-side-by-side
# timeout: 240
. tests/lib/guard.sh
programs loopdev pattern other

module_users() {
	cat "/sys/module/$MODULE/refcnt"
}

# The driver's work waits in the file system, for the inode's lock
asks() {
	grep -q "floop_look" /proc/[0-9]*/stack 2>/dev/null
}

no_module_users() {
	[ "$(module_users)" = 0 ]
}

module_is_used() {
	[ "$(module_users)" -gt 0 ]
}

detach_if_attached() {
	[ ! -e "/sys/block/${dev#/dev/}/loop/backing_file" ] || detach "$dev"
}

# asks_in_vain WHERE - the driver asks because of a write to that offset, and
# gets no answer; false if it has asked before the lock was held
asks_in_vain() {
	local bytes
	bytes=$(loop_stat "$dev" mapped_bytes)
	hold_inode "$MNT/image"
	# Into unwritten blocks: 200 ms later there is something to look for
	pattern write -d -n -q -s 2 -o "$1" "$dev" 64k ||
		fail "$fs: a write to $1 failed"
	queue_chmod "$MNT/image"
	for _ in {1..20}; do
		! asks || return 0
		# It has asked
		[ "$(loop_stat "$dev" mapped_bytes)" = "$bytes" ] || break
		sleep 0.1
	done
	let_go
	return 1
}

# stuck MEGABYTES COMMAND... - it stops the guard while the file system doesn't
# answer what it is asked because of a write from there on
stuck() {
	local from=$1 where tries
	shift
	dev=$(attach "$MNT/image")
	wait_mapped "$dev" 16
	for tries in $(seq 0 63); do
		where=$((from * 1024 + tries * 64))k
		! asks_in_vain $where || break
	done
	asks || fail "$fs: the driver has asked in time, 64 times"
	check "$fs: $*" timeout 60 "$@"
	asks || fail "$fs: $*: the question has been answered"
	grep -q handle_userfault "/proc/$holder/stack" ||
		fail "$fs: $*: the lock was let go of: $(cat "$WORK/said")"
	detach_if_attached
	wait_until 20 module_is_used
	let_go
	wait_until 20 no_module_users
	echo "ok: $fs: $*: all is let go of"
	check "$fs: $*: the data" \
		pattern check -q -s 2 -o "$where" "$MNT/image" 64k
}

holder=
later let_go
for fs in xfs ext4; do
	# Until 6.16 ext4's FS_IOC_FIEMAP takes no lock
	[ "$fs-$KERNEL" != ext4-lts ] || continue
	begin_fs "$fs"
	# What it reads of the device would wait for the lock
	[ ! -e /run/udev/control ] || without_udev
	fallocate -l 64M "$MNT/image"
	pattern write -d -q -s 1 "$MNT/image" 16M
	sync
	stuck 32 sh -c "echo 0 >/sys/block/floop0/loop/mapping"
	[ "$fs" = ext4 ] || stuck 40 losetup --set-capacity /dev/floop0
	stuck 48 losetup -d /dev/floop0
	end_fs
done
