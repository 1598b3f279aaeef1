#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: While an uncounted opener is inside a long change of the image, no
#   epoch begins. The disk's reads take a second each, so a deduplication into
#   the image holds the inode's lock for several. It finds a difference and
#   changes nothing, and the image is mapped again afterwards.
# modes: side-by-side
# machines: stable-side-by-side
# timeout: 180
. tests/lib/guard.sh
programs loopdev pattern uncounted

begin_fs xfs -m reflink=1
later below_takes 0 0 0
image=$MNT/image
written "$image" 8M 1
written "$MNT/twin" 8M 1
# They differ at the end of the compared range
printf x | dd of="$MNT/twin" bs=1 seek=$((6 * 4096 - 1)) conv=notrunc \
	status=none
sync
open_uncounted "$image"
dev=$(attach "$image")
wait_mapped "$dev"
drop_caches
below_takes 1000 0 0
begun=$(begun "$dev")
echo "dedupe $MNT/twin 0 0 24k" >&8
wait_until 20 unmapped "$dev"
waited=0
# With another time limit, `read` loses the part of a line that has come.
until read -r -u 9 -t 0; do
	if [ "$(begun "$dev")" != "$begun" ]; then
		# The answer may be on its way, or the opener not yet inside
		sleep 1
		! read -r -u 9 -t 0 || break
		! mapped "$dev" || fail "an epoch began meanwhile"
		begun=$(begun "$dev")
	fi
	waited=$((waited + 1))
	sleep 0.2
done
read -r -u 9 answer
is "what it finds" "$answer" differs
[ "$waited" -ge 10 ] || fail "it was not inside for long"
below_takes 0 0 0
wait_mapped "$dev"
check "what the device holds" pattern check -d -q -s 1 "$dev" 8M
detach "$dev"
close_uncounted
end_fs
