#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: On ext4 without extents and with blocks smaller than a page, a write to
#   a hole goes through the page cache for a moment. Mapped writes to the same
#   pages do no harm: no flush fails, and all data is there.
# modes: side-by-side
# machines: stable-side-by-side
# cpus: 2
. tests/lib/guard.sh
programs loopdev pattern onepage

fs=ext4
begin_fs $fs -b 1024 -O ^extent,^64bit
mkimage 1M "$MNT/image" >/dev/null
dev=$(attach "$MNT/image")
for ((page = 0; page < 256; page++)); do
	echo "pwrite -q $((page * 4096)) 1024"
done | xfs_io -d "$dev" >/dev/null
wait_until 20 maps "$dev" $((256 << 10))
mapped=$(ios "$dev" mapped)
for round in {1..5}; do
	check "round $round: writers of different blocks of one page" \
		onepage "$dev" 1M "$(more 6)"
	! more_ios "$dev" mapped $((mapped + 100)) || break
done
more_ios "$dev" mapped $((mapped + 100)) || fail "hardly anything was mapped"
detach "$dev"
end_fs
