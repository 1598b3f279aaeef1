#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: Attaching, using and detaching again and again leaks no memory, nor
#   does a lease that is refused (kmemleak).
# modes: side-by-side
# debug: only
# timeout: 400
. tests/lib/case.sh
programs loopdev devfsx failnth

leaks=/sys/kernel/debug/kmemleak
[ -w "$leaks" ] || mount -t debugfs debugfs /sys/kernel/debug
[ -w "$leaks" ] || fail "this kernel has no kmemleak"
on_disk ext4
mkimage 4M "$MNT/image" >/dev/null

echo clear >"$leaks"
for how in direct buffered; do
	for _ in 1 2 3 4 5 6 7 8; do
		dev=$(loop_attach "$how" -p "$MNT/image")
		devfsx -f "$MNT/image" -n 30 "$dev" >/dev/null
		loopdev detach "$dev"
	done
	n=$(loopdev add 300)
	udev_settle
	loopdev remove "$n"
done
# A lease that is refused, again and again
leases=/proc/sys/fs/leases-enable
later sh -c "echo 1 >$leases"
echo 0 >$leases
map_images
dev=$(loop_attach direct "$MNT/image")
wait_until 20 grep -q "grants no lease" \
	"/sys/block/${dev#/dev/}/loop/mapped_reason"
sleep 3
loopdev detach "$dev"
echo 1 >$leases
unload "$MODULE"
insert
# An object is reported when two scans did not find a pointer to it.
sleep 6
echo scan >"$leaks"
sleep 1
echo scan >"$leaks"
found=$(cat "$leaks")
echo "$found" | grep -q -e "$MODULE" -e loop_ -e floop_ &&
	fail "memory is leaked:
$found"
[ -z "$found" ] || echo "of others: $found"
