#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: An image on xfs that has been cloned is mapped when it shares no block
#   any more, without anybody's help. While it shares blocks none of it is
#   mapped, its twin stays as it is, and nothing is copied. The image's times
#   don't change by that.
# modes: side-by-side
# machines: lts-side-by-side stable-side-by-side
# timeout: 300
. tests/lib/guard.sh
programs loopdev pattern

set_helper ""

# shared_bytes FILE - how many of its bytes are shared
shared_bytes() {
	xfs_io -r -c "fiemap -v" "$1" | awk '
		$NF ~ /^0x2[0-9a-f]{3}$/ { blocks += $(NF - 1) }
		END { print blocks * 512 }'
}

times() {
	stat -c "%y %z" "$1"
}

begin_fs xfs
written "$MNT/image" 8M 1
cp --reflink=always "$MNT/image" "$MNT/twin"
is "shared" "$(shared_bytes "$MNT/image")" $((8 << 20))

before=$(times "$MNT/image")
dev=$(attach --read-only "$MNT/image")
wait_until 20 reads_shared
sleep 1
detach "$dev"
is "shared, after a read-only device" "$(shared_bytes "$MNT/image")" \
	$((8 << 20))

dev=$(attach "$MNT/image")
wait_until 20 reads_shared
sleep 2
is "what is mapped beside a twin" "$(loop_stat "$dev" mapped_bytes)" 0
is "shared, after a device" "$(shared_bytes "$MNT/image")" $((8 << 20))
is "the image's times" "$(times "$MNT/image")" "$before"
check "a write" pattern write -d -q -s 2 -o 1M "$dev" 1M

# on_its_own FILE... - the image is mapped when these are gone
on_its_own() {
	rm "$@"
	sync
	wait_unshared 8
	goes_mapped "without its twin" "$dev"
}

on_its_own "$MNT/twin"
check "its front" pattern check -d -q -s 1 "$dev" 1M
check "what was written" pattern check -d -q -s 2 -o 1M "$dev" 1M
check "a mapped write" pattern write -d -q -s 3 -o 2M "$dev" 1M
detach "$dev"
check "it is in the file" pattern check -q -s 3 -o 2M "$MNT/image" 1M

# Cloned while it is mapped. On 7.3 xfs then claims larger blocks than when it
# was attached.
dev=$(attach "$MNT/image")
wait_mapped "$dev"
cp --reflink=always "$MNT/image" "$MNT/twin"
sum=$(sum_of "$MNT/twin")
wait_until 20 maps_nothing
check "a write beside a twin" pattern write -d -q -s 4 -o 3M "$dev" 1M
is "what is mapped beside it" "$(loop_stat "$dev" mapped_bytes)" 0
is "the twin" "$(sum_of "$MNT/twin")" "$sum"
for mapping in 0 1; do
	echo "$mapping" >"/sys/block/${dev#/dev/}/loop/mapping"
done
on_its_own "$MNT/twin"
check "what was written beside it" pattern check -d -q -s 4 -o 3M "$dev" 1M
detach "$dev"

# A clone, whose source is gone before
cp --reflink=always "$MNT/image" "$MNT/clone"
rm "$MNT/image"
sync
before=$(times "$MNT/clone")
dev=$(attach "$MNT/clone")
wait_unshared 8
goes_mapped "a clone" "$dev"
is "the clone's times" "$(times "$MNT/clone")" "$before"
is "nobody broke its lease" "$(broken "$dev")" 0
check "what it has" pattern check -d -q -s 3 -o 2M "$dev" 1M
detach "$dev"
end_fs
