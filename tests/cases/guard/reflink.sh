#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: An image on xfs is cloned while it is written to. The clone stays as it
#   was when it was made. The image goes on, not mapped while blocks are shared,
#   and is mapped again when it shares none.
# modes: side-by-side
# machines: lts-side-by-side
# cpus: 2
# timeout: 400
. tests/lib/guard.sh
programs loopdev pattern keeper

set_helper ""

begin_fs xfs
written "$MNT/image" 16M 1
dev=$(attach "$MNT/image")
wait_mapped "$dev"
begin_writes "$dev" 8M -b 16k -t 4
for clone in 1 2 3; do
	check "clone $clone" cp --reflink=always "$MNT/image" "$MNT/clone$clone"
	sums[clone]=$(sum_of "$MNT/clone$clone")
	writes=$(ios "$dev" file)
	wait_until 20 more_ios "$dev" file $((writes + 20))
done
# On some kernels the image is mapped with an empty map, on others it isn't
# mapped
sleep 1
is "what is mapped of an image that shares blocks" \
	"$(loop_stat "$dev" mapped_bytes)" 0
end_writes "what was written is on the device"
check "and around it" pattern check -d -q -s 1 -o 8M "$dev" 8M
drop_caches
for clone in 1 2 3; do
	is "clone $clone is as it was" "$(sum_of "$MNT/clone$clone")" \
		"${sums[clone]}"
done
check "the second half of it" pattern check -q -s 1 -o 8M "$MNT/clone1" 8M

# Blocks of others into the image
check "a file" written "$MNT/donor" 4M 5
check "cloned into the image" xfs_io -c "reflink $MNT/donor 0 8m 4m" \
	"$MNT/image"
check "the donor is as it was" pattern check -d -q -s 5 -o 0 "$MNT/donor" 4M
cmp -n 4M -i 8M:0 "$dev" "$MNT/donor" ||
	fail "the device does not have the cloned data"
check "and writes to it" pattern write -d -q -b 64k -s 6 -o 8M "$dev" 4M
check "do not get to the donor" pattern check -d -q -s 5 "$MNT/donor" 4M

rm "$MNT"/clone* "$MNT/donor"
sync
wait_unshared 16
goes_mapped "when nothing is shared" "$dev"
check "what it has" pattern check -d -q -b 64k -s 6 -o 8M "$dev" 4M
detach "$dev"
check "in the file" keeper check -b 16k -m "$WORK/model" "$MNT/image" 8M
end_fs
