#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: Less usual ways to change an image, or to hold it open, break the map
#   and lose nothing of what is written to the device meanwhile: copies in and
#   out, splice, sendfile, allocation, written zeroes, swapon, inode flags,
#   extents or none, the boot loader's inode, files registered in an io_uring.
# modes: side-by-side
# machines: stable-side-by-side
# cpus: 2
# timeout: 600
. tests/lib/guard.sh
programs loopdev pattern other keeper

swap_off() {
	swapoff "$1" 2>/dev/null || true
}

for fs in ext4 xfs; do
	begin_mapped "$fs" 8M
	written "$MNT/source" 4M 5
	begin_writes "$dev" 4M -b 16k -t 2
	# Not from a multiple of a block on: those would be clones on xfs
	breaks "copying into it" other copy "$MNT/source" 1000 "$MNT/image" \
		4097k 100000
	breaks "copying out of it" other copy "$MNT/image" 1000 \
		"$MNT/source" 3M 100000
	breaks "splice into it" other splice "$MNT/source" 0 \
		"$MNT/image" 5M 128k
	breaks "sendfile into it" other sendfile "$MNT/source" 0 \
		"$MNT/image" 6M 128k
	breaks "allocating what is allocated" other fallocate \
		"$MNT/image" 0 0 8M
	breaks "allocating behind the end" other fallocate "$MNT/image" 1 8M 1M
	# FALLOC_FL_WRITE_ZEROES, where the disk can; one that can't refuses
	# before anything is changed
	if "$WORK/bin/other" fallocate "$MNT/source" 0x80 2M \
		64k 2>"$WORK/zeroes"; then
		breaks "writing zeroes" other fallocate "$MNT/image" 0x80 7M 64k
	else
		matches "$fs: this disk writes no zeroes" \
			"$(cat "$WORK/zeroes")" "*not supported"
	fi
	end_writes "$fs: and writes"
	check "$fs: what was copied" \
		cmp -n 100000 -i 1000:4195328 "$MNT/source" "$MNT/image"

	wait_mapped "$dev"
	coproc FIXED { other fixed "$MNT/image"; }
	fixed=$FIXED_PID
	exec 8>&"${FIXED[1]}"
	read -r -u "${FIXED[0]}" said
	is "$fs: a descriptor in an io_uring" "$said" fixed
	not_mapped "someone else has the image open"
	eval "exec ${FIXED[1]}>&-"
	exec 8>&-
	wait "$fixed" || fail "$fs: io_uring"
	wait_mapped "$dev"

	for flag in i a; do
		check "$fs: chattr +$flag" chattr "+$flag" "$MNT/image"
		not_mapped "the file needs its file system"
		chattr "-$flag" "$MNT/image"
		wait_mapped "$dev"
	done

	# The kernel would write swapped memory to the image
	check "$fs: the image as swap space" mkswap -q "$MNT/image"
	chmod 600 "$MNT/image"
	# xfs takes no swap file whose inode waits for the log
	sync "$MNT/image"
	swapon "$MNT/image"
	later swap_off "$MNT/image"
	is "$fs: with swap space on it" "$(attr "$dev" loop/mapped)" 0
	refused "$fs: a write to what is swap space" "*" \
		dd if=/dev/zero of="$dev" bs=4k count=1 seek=512 oflag=direct
	swapoff "$MNT/image"
	wait_mapped "$dev"
	goes_mapped "$fs: without it" "$dev"
	detach "$dev"

	# A size that ends in the middle of a block, and writes behind it
	written "$MNT/image" 8M 1
	dev=$(attach "$MNT/image")
	wait_mapped "$dev"
	check "$fs: cut in the middle of a block" \
		other truncate "$MNT/image" $(((6 << 20) + 1000))
	wait_mapped "$dev" 6
	check "$fs: writes before the end" \
		pattern write -d -q -b 512 -s 2 -o $(((6 << 20) - 8192)) \
		"$dev" 8704
	refused "$fs: and over it" "EIO write $(((6 << 20) + 512))" \
		pattern write -d -q -b 512 -s 2 -o $(((6 << 20) + 512)) \
		"$dev" 32k
	is "$fs: its size" "$(stat -c %s "$MNT/image")" $(((6 << 20) + 1000))
	check "$fs: what is before the end" \
		pattern check -q -b 512 -s 2 -o $(((6 << 20) - 8192)) \
		"$MNT/image" 8704
	check "$fs: what is in the same sector" \
		pattern check -q -b 8 -s 1 -o $(((6 << 20) + 512)) \
		"$MNT/image" 488
	detach "$dev"

	if [ "$fs" = ext4 ]; then
		# chattr +e does the same as EXT4_IOC_MIGRATE. chattr -e takes
		# only very small files
		written "$MNT/small" 48k 4
		dev=$(attach "$MNT/small")
		breaks "chattr -e" chattr -e "$MNT/small"
		wait_mapped "$dev"
		goes_mapped "without extents" "$dev"
		breaks "chattr +e" chattr +e "$MNT/small"
		wait_mapped "$dev"
		goes_mapped "with extents again" "$dev"
		check "what it holds" pattern check -d -q -s 4 "$dev" 48k
		detach "$dev"

		rm "$MNT/image"
		written "$MNT/image" 4M 1
		dev=$(attach "$MNT/image")
		wait_mapped "$dev"
		check "in the place of the boot loader" \
			other swap-boot "$MNT/image"
		pattern write -d -q -s 2 "$dev" 1M || true
		check "and back" other swap-boot "$MNT/image"
		check "meanwhile it was not written to" \
			pattern check -q -s 1 "$MNT/image" 4M
		wait_mapped "$dev"
		check "the device has it" pattern check -d -q -s 1 "$dev" 4M
		detach "$dev"

		# Journalled data: ext4 heeds chattr +j only without delayed
		# allocation
		unmount "$MNT"
		mount -o nodelalloc /dev/mapper/below "$MNT"
		dev=$(attach "$MNT/image")
		wait_mapped "$dev"
		check "chattr +j" chattr +j "$MNT/image"
		not_mapped "the file needs its file system"
		check "written with its data journalled" \
			pattern write -d -q -s 3 "$dev" 4M
		chattr -j "$MNT/image"
		wait_mapped "$dev"
		check "without" pattern check -d -q -s 3 "$dev" 4M
		detach "$dev"
	fi
	end_fs
done
