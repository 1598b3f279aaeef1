#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: A block device as the image is mapped as one extent, at an offset too.
#   Flushes and discards reach it. Readers and writers of its own node see the
#   same data. Without memory for a map it is not mapped.
# modes: side-by-side
# machines: lts-side-by-side
# timeout: 400
. tests/lib/guard.sh
programs loopdev pattern keeper

carve "$(the_disk 1)" below 0 64
disk=/dev/mapper/below
pattern write -q -s 1 "$disk" 64M
dev=$(attach "$disk")
wait_mapped "$dev"
is "extents" "$(loop_stat "$dev" mapped_extents)" 1
goes_mapped "reads" "$dev"
check "what they read" pattern check -d -q -s 1 "$dev" 64M
begin_writes "$dev" 16M -b 16k
mapped=$(ios "$dev" mapped)
wait_until 20 more_ios "$dev" mapped $((mapped + 50))
end_writes "writes"
check "are on the disk" keeper check -b 16k -d -m "$WORK/model" "$disk" 16M
file=$(ios "$dev" file)
check "writes and a flush" pattern write -d -q -s 2 -o 32M "$dev" 1M
is "of which through the file" "$(($(ios "$dev" file) - file))" 0

# The disk's own page cache
check "read by its node" pattern check -q -s 2 -o 32M "$disk" 1M
check "written again" pattern write -d -q -s 3 -o 32M "$dev" 1M
check "read by its node again" pattern check -q -s 3 -o 32M "$disk" 1M
check "written by its node" pattern write -q -n -s 4 -o 32M "$disk" 1M
check "read by ours" pattern check -d -q -s 4 -o 32M "$dev" 1M
detach "$dev"

dev=$(attach --offset 4096 --size-limit 8M "$disk")
wait_until 20 mapped "$dev"
# udev has looked at what was written, and left pages of it.
udev_settle
blockdev --flushbufs "$disk"
goes_mapped "at an offset: reads" "$dev"
check "written" pattern write -d -q -s 5 "$dev" 8M
check "it is where it belongs" cmp -n 8M -i 4096:0 "$disk" "$dev"
refused "beyond the limit" "*" dd if=/dev/zero of="$dev" \
	bs=4k seek=2048 count=1 oflag=direct
detach "$dev"
check "the rest of the disk" pattern check -d -q -s 4 -o 32M "$disk" 1M

# One extent is too much for a map without memory.
memory=/sys/module/$MODULE/parameters/map_memory
later sh -c "echo 64 >$memory"
echo 0 >"$memory"
fs="no memory"
dev=$(attach "$disk")
not_mapped "no memory for the map"
detach "$dev"
