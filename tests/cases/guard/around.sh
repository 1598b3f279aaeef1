#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: Changes of the file system around a mapped image that is being written
#   to (trim, growth, shrinking, quota, a lazy unmount, an emergency remount, a
#   shutdown) move none of its blocks and lose nothing.
# modes: side-by-side
# machines: stable-side-by-side
# cpus: 2
# timeout: 600
. tests/lib/guard.sh
programs loopdev pattern other keeper

# This counts I/Os, and udev reads a device that was written to. dmsetup makes
# links with its help
carve "$(the_disk 1)" below 0 700
without_udev

# stays_mapped WHAT COMMAND... - it breaks no epoch, and I/O is mapped after it
stays_mapped() {
	local what=$1 before mapped
	shift
	wait_mapped "$dev" 8
	before=$(broken "$dev")
	check "$fs: $what" "$@"
	is "$fs: $what: epochs broken" "$(broken "$dev")" "$before"
	mapped=$(ios "$dev" mapped)
	wait_until 20 more_ios "$dev" mapped $((mapped + 10))
}

larger_disk() {
	echo "0 $((900 * 2048)) linear $(the_disk 1) 0" | dmsetup reload below
	dmsetup suspend below
	dmsetup resume below
}

grow() {
	case $fs in
	ext4) resize2fs /dev/mapper/below ;;
	xfs) xfs_growfs "$MNT" ;;
	esac
}

shrink() {
	local blocks
	blocks=$(xfs_info "$MNT" |
		sed -n 's/^data .* blocks=\([0-9]*\),.*/\1/p')
	xfs_growfs -D $((blocks - 500)) "$MNT"
}

lazily() {
	umount -l "$MNT"
	sleep 0.5
	mount -o "$mount_options" /dev/mapper/below "$MNT"
}

read_only() {
	[ "$(findmnt -n -o FS-OPTIONS "$MNT" | cut -d, -f1)" = ro ]
}

no_superblock() {
	[ ! -e "/sys/fs/$fs/$(basename "$(readlink -f /dev/mapper/below)")" ]
}

# The machine's own root becomes read-only as well
later mount -o remount,rw /
for fs in ext4 xfs; do
	if [ "$fs" = ext4 ]; then
		begin_fs "$fs" -O quota
		mount_options=usrquota
	else
		begin_fs "$fs"
		mount_options=uquota
	fi
	unmount "$MNT"
	mount -o "$mount_options" /dev/mapper/below "$MNT"
	written "$MNT/image" 8M 1
	truncate -s 12M "$MNT/image"
	dev=$(attach "$MNT/image")
	wait_mapped "$dev" 8
	begin_writes "$dev" 8M -b 16k -t 2
	stays_mapped "trim" fstrim "$MNT"
	stays_mapped "a larger disk" larger_disk
	stays_mapped "growth" grow
	[ "$fs" = ext4 ] || stays_mapped "shrinking" shrink
	stays_mapped "quota not enforced" other enforce /dev/mapper/below 0
	stays_mapped "quota enforced" other enforce /dev/mapper/below 1
	stays_mapped "a lazy unmount, and another mount" lazily
	refused "$fs: remounting read-only" "*busy*" mount -o remount,ro "$MNT"
	end_writes "$fs: and writes"

	echo u >/proc/sysrq-trigger
	wait_until 20 read_only
	mapped=$(ios "$dev" mapped)
	check "$fs: reads after an emergency remount" dd if="$dev" \
		of=/dev/null bs=64k count=128 iflag=direct status=none
	more_ios "$dev" mapped "$mapped" || fail "$fs: they were not mapped"
	# The file system decides whether that is refused: ext4 takes a write
	# that needs no transaction
	mapped=$(ios "$dev" mapped)
	file=$(ios "$dev" file)
	dd if=/dev/zero of="$dev" bs=64k count=1 oflag=direct status=none ||
		true
	is "$fs: writes that were mapped after an emergency remount" \
		"$(($(ios "$dev" mapped) - mapped))" 0
	more_ios "$dev" file "$file" ||
		fail "$fs: the file system was not asked"
	mount -o "remount,rw,$mount_options" "$MNT"
	begin_writes "$dev" 8M -b 16k -t 2
	mapped=$(ios "$dev" mapped)
	wait_until 20 more_ios "$dev" mapped $((mapped + 10))

	stays_mapped "a shutdown" xfs_io -x -c shutdown "$MNT"
	end_writes "$fs: and writes to what is mapped, flushes included"
	refused "$fs: a write to a hole after a shutdown" "*" \
		dd if=/dev/zero of="$dev" bs=64k count=1 seek=160 oflag=direct
	detach "$dev"
	unmount "$MNT"
	# The lazily unmounted mount stays until the image's file is released,
	# which is later if udev is the last to close the device
	wait_until 20 no_superblock
	mount -o "$mount_options" /dev/mapper/below "$MNT"
	check "$fs: what was written after the shutdown is in the file" \
		keeper check -b 16k -m "$WORK/model" "$MNT/image" 8M
	end_fs
done
