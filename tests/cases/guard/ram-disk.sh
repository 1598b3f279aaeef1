#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: A driver may change a bio's position and size (brd does). Mapped I/O to
#   such a disk is still counted as what it was, and none stays in flight.
# modes: side-by-side
# machines: stable-side-by-side
# debug: no
. tests/lib/guard.sh
programs loopdev pattern

remove_disk() {
	udev_settle
	rmmod brd
}

# disk_stat DEVICE FIELD - of Documentation/block/stat.rst
disk_stat() {
	awk -v n="$2" '{ print $n }' "/sys/block/${1#/dev/}/stat"
}

modprobe brd rd_nr=1 rd_size=65536
later remove_disk
udev_settle
disk=/dev/ram0
# All of it is mapped, and udev is done, before the counters are read.
pattern write -d -q -s 1 "$disk" 64M
dev=$(attach "$disk")
wait_mapped "$dev"
udev_settle

mapped=$(ios "$dev" mapped)
written=$(disk_stat "$dev" 7)
read=$(disk_stat "$dev" 3)
check "what is read" pattern check -d -q -b 64k -s 1 "$dev" 4M
is "sectors that were read" "$(($(disk_stat "$dev" 3) - read))" 8192
check "what is written" pattern write -d -n -q -b 64k -s 2 "$dev" 4M
is "sectors that were written" "$(($(disk_stat "$dev" 7) - written))" 8192
more_ios "$dev" mapped $((mapped + 100)) || fail "it was not mapped"
is "in flight" "$(xargs <"/sys/block/${dev#/dev/}/inflight")" "0 0"
check "it is there" pattern check -d -q -b 64k -s 2 "$disk" 4M
detach "$dev"
