#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: A disk that serves as the image and becomes read-only, or swap of the
#   kernel's, takes no more writes from the device, as it takes none from
#   anybody. Afterwards it takes them again.
# modes: side-by-side
# machines: stable-side-by-side lts-side-by-side
# timeout: 200
. tests/lib/guard.sh
programs loopdev pattern

make_writable() {
	[ ! -e "$disk" ] || blockdev --setrw "$disk"
}

swap_off() {
	swapoff "$disk" 2>/dev/null || true
}

# refuses WHAT - the disk refuses writes by its node and by the device, and
# reads go on. Waits until the pages that udev has read are dropped and the
# device is mapped, if it is to be
refuses() {
	refused "$1: a write by its node" "*" \
		dd if=/dev/zero of="$disk" bs=64k seek=512 count=1 \
		oflag=direct conv=notrunc
	udev_settle
	(wait_until 5 mapped "$dev") || true
	refused "$1: a write to the device" "*" \
		dd if=/dev/zero of="$dev" bs=64k seek=512 count=1 oflag=direct
	drop_caches
	check "$1: what the device reads" \
		pattern check -d -q -s 1 -o 32M "$dev" 1M
	check "$1: what the disk has" pattern check -d -q -s 1 -o 32M "$disk" 1M
}

carve "$(the_disk 1)" below 0 64
disk=/dev/mapper/below
pattern write -q -s 1 "$disk" 64M
mkswap -q "$disk"
dev=$(attach "$disk")
wait_mapped "$dev"
goes_mapped "reads" "$dev"

later make_writable
blockdev --setro "$disk"
refuses "read-only"
more_ios "$dev" file_disk 0 || fail "no write is counted as refused"
blockdev --setrw "$disk"
check "a write afterwards" pattern write -d -q -s 1 -o 32M "$dev" 1M

later swap_off
swapon "$disk"
refuses "swapped to"
swapoff "$disk"
check "a write afterwards" pattern write -d -q -s 1 -o 32M "$dev" 1M
wait_mapped "$dev"
goes_mapped "reads" "$dev"
detach "$dev"
