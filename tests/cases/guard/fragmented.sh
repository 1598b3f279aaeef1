#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: The fill doesn't ask where the data of a fragmented image ends: the
#   file system would walk over all its extents. Of an image that shares its
#   blocks, where nothing lists them, it asks once, not again for each chunk.
# modes: side-by-side
# machines: stable-side-by-side
. tests/lib/guard.sh
programs loopdev pattern

# Four batches (BATCH)
extents=4096

# asked_since CALLS
asked_since() {
	[ "$(calls)" -gt "$1" ]
}

begin_tracing
modprobe xfs
count_calls xfs_file_llseek
begin_fs xfs
mkimage $((extents * 4))k "$MNT/image" >/dev/null
mkimage $((extents * 4))k "$MNT/other" >/dev/null
# Two files that grow by turns
for ((i = 0; i < extents; i++)); do
	printf 'file 0\npwrite -q %dk 4k\nfile 1\npwrite -q %dk 4k\n' \
		$((i * 4)) $((i * 4))
done | xfs_io -d "$MNT/image" "$MNT/other" >/dev/null
before=$(calls)
dev=$(attach "$MNT/image")
wait_mapped "$dev"
n=$(($(calls) - before))
found=$(loop_stat "$dev" mapped_extents)
[ "$found" -gt $((extents / 2)) ] || fail "only $found extents"
is "asked where data is, of $found extents" "$n" 0
detach "$dev"

# Sixteen chunks. The fill looks again, and each time asks twice or more.
written "$MNT/image" 64M 1
cp --reflink=always "$MNT/image" "$MNT/other"
set_helper ""
before=$(calls)
dev=$(attach "$MNT/image")
wait_until 30 asked_since "$before"
sleep 3
n=$(($(calls) - before))
[ "$n" -le 16 ] || fail "asked where data is $n times"
echo "ok: shared: asked where data is $n times"
detach "$dev"
end_fs
