#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: A device that was written to has released everything when its detach
#   returns: a file system that was unmounted lazily is unmounted, and the
#   module can be unloaded, even if the caller leaves a worker no CPU. The
#   caller doesn't wait for other files.
# modes: side-by-side
# machines: stable-side-by-side
# timeout: 300
. tests/lib/guard.sh
programs loopdev pattern

# write_mapped - so that the guard has something left to do: the times
write_mapped() {
	wait_mapped "$dev"
	udev_settle
	pattern write -q -n -d -s 2 "$dev" 1M
	# Otherwise udev would look at it later, and hang with its disk.
	udev_settle
}

# release_stranger - a kernel thread releases another process's descriptor, and
# waits for a disk that hangs
release_stranger() {
	python3 - <<'END'
import array, os, socket
fd = os.open("/dev/mapper/hangs", os.O_RDWR)
os.write(fd, bytes(4096))
a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
os.system("dmsetup suspend --noflush --nolockfs hangs")
# In a circle that only the kernel's collector finds
fds = array.array("i", [fd, a.fileno(), b.fileno()])
for s in a, b:
    s.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
os.close(fd)
a.close()
b.close()
socket.socket(socket.AF_UNIX).close()
END
	wait_until 20 stranger_hangs
}

stranger_hangs() {
	grep -qs delayed_fput /proc/[0-9]*/stack
}

for fs in $(file_systems xfs); do
	begin_mapped "$fs" 4M
	later dmsetup resume below
	# A commit that hangs with the disk would keep the guard from its times.
	[ "$fs" != ext4 ] || mount -o remount,commit=300 "$MNT"
	sync -f "$MNT"
	write_mapped
	dd if=/dev/zero of="$MNT/another" bs=64k count=1 status=none
	umount -l "$MNT"
	dmsetup suspend --noflush --nolockfs below
	loopdev detach "$dev" &
	detacher=$!
	wait_until 20 waits_or_is_gone "$detacher" cleanup_mnt
	[ -e "/proc/$detacher" ] ||
		fail "$fs: detached, and its file system is not unmounted"
	echo "ok: $fs: the detaching process unmounts the file system"
	dmsetup resume below
	wait "$detacher" || fail "$fs: it was not detached"
	check "$fs: the disk is free" fsck_of "$fs" /dev/mapper/below
done

carve "$(the_disk 1)" hangs 700 16
later dmsetup resume hangs
# udev's looks at the device would keep the module loaded.
without_udev
begin_mapped ext4 4M
later insert_missing
write_mapped
# shellcheck disable=SC2016
check "unloaded at once, and before the worker runs again" \
	chrt --fifo 50 sh -c 'loopdev detach "$0" && rmmod "$1"' "$dev" \
	"$MODULE"
insert
wait_until 30 test -e "$CTL"
set_mapping 1

dev=$(attach "$MNT/image")
write_mapped
release_stranger
loopdev detach "$dev" &
detacher=$!
wait_until 20 waits_or_is_gone "$detacher" wait_closed
wait "$detacher" || fail "it was not detached"
stranger_hangs || fail "nothing hangs"
check "with another's file in the way: the file system is free" umount "$MNT"
check "and the module" rmmod "$MODULE"
dmsetup resume hangs
insert
wait_until 30 test -e "$CTL"
