#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: The fill asks where the data of a fragmented image ends once, not again
#   for each batch of extents: the file system walks over all of them each time.
# modes: side-by-side
# machines: stable-side-by-side
. tests/lib/guard.sh
programs loopdev pattern

# Four batches (BATCH)
extents=4096

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
[ "$n" -le 8 ] || fail "asked where data is $n times"
echo "ok: $found extents, asked where data is $n times"
detach "$dev"
end_fs
