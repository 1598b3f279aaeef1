#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: Online repair of xfs, which opens nothing, rebuilds the list of an
#   image's extents, while the image is written to and below a read-only device.
#   Each repair ends an epoch, nothing is lost, and no block moves.
# kernels: stable
# modes: side-by-side
# cpus: 2
# debug: no
# timeout: 400
. tests/lib/guard.sh
programs loopdev pattern keeper

# where - the blocks of the image; opens it
where() {
	filefrag -v "$MNT/image" |
		awk '$1 ~ /^[0-9]+:$/ { print $2, $3, $4, $5 }'
}

# rebuild - the list of extents, from the file system's reverse map
rebuild() {
	xfs_io -x -c "repair -R bmapbtd $inode $generation" "$MNT"
}

begin_fs xfs -m rmapbt=1
fragmented "$MNT/image" 4
check "the image" pattern write -d -q -s 1 "$MNT/image" 4M
inode=$(stat -c %i "$MNT/image")
generation=$(xfs_io -c "bulkstat_single $inode" "$MNT" |
	sed -n 's/^\s*bs_gen = //p')
before=$(where)
[ "$(wc -l <<<"$before")" -gt 20 ] ||
	fail "the inode has room for all pieces of the image: $before"

dev=$(attach "$MNT/image")
wait_mapped "$dev"
broken=$(broken "$dev")
begin_writes "$dev" 2M -b 16k -t 4
for i in {1..20}; do
	check "repair $i" rebuild
	mapped=$(ios "$dev" mapped)
	wait_until 20 more_ios "$dev" mapped $((mapped + 10))
done
end_writes "written meanwhile"
is "epochs broken by it" $(($(broken "$dev") - broken)) 20
check "the rest of the device" pattern check -d -q -s 1 -o 2M "$dev" 2M
detach "$dev"
drop_caches
check "the file" pattern check -q -s 1 -o 2M "$MNT/image" 2M
check "the file, where it was written" keeper check -b 16k -m "$WORK/model" \
	"$MNT/image" 2M
is "where it is" "$(where | md5sum)" "$(md5sum <<<"$before")"

dev=$(attach --read-only "$MNT/image")
wait_mapped "$dev"
broken=$(broken "$dev")
check "repair under a read-only device" rebuild
is "epochs broken by it" $(($(broken "$dev") - broken)) 1
wait_mapped "$dev"
check "what the device reads" pattern check -d -q -s 1 -o 2M "$dev" 2M
detach "$dev"
end_fs
