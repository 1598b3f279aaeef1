#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: An image is also a file of an overlay. An open by its path in the
#   overlay breaks the lease (on xfs, one to write), and so does a truncate
#   there without an open. Nothing is written to blocks that another file has
#   got.
# modes: side-by-side
# machines: stable-side-by-side
# timeout: 400
. tests/lib/guard.sh
programs loopdev pattern other keeper

for fs in ext4 xfs; do
	begin_fs "$fs"
	mkdir -p "$MNT/lower" "$MNT/upper" "$MNT/work" "$WORK/merged"
	written "$MNT/upper/image" 16M 1
	written "$MNT/lower/below" 2M 5
	mount_at overlay "$WORK/merged" -t overlay \
		-o "lowerdir=$MNT/lower,upperdir=$MNT/upper,workdir=$MNT/work"
	dev=$(attach "$MNT/lower/below")
	reads_file "a reader of the lower layer's" dd if="$WORK/merged/below" \
		of=/dev/null bs=1M status=none
	detach "$dev"
	dev=$(attach "$MNT/upper/image")
	reads_file "a reader of the upper layer's" dd if="$WORK/merged/image" \
		of=/dev/null bs=1M status=none
	breaks "a writer" pattern write -q -s 1 "$WORK/merged/image" 1M
	breaks "truncate by the overlay's path" other truncate \
		"$WORK/merged/image" 4M
	is "$fs: as long as the overlay says" \
		"$(stat -c %s "$MNT/upper/image")" $((4 << 20))
	nothing_lands 4M 12M
	detach "$dev"
	unmount "$WORK/merged"
	end_fs
done
