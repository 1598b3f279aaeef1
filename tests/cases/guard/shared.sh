#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: An image on xfs whose clone is kept is mapped: what it shares for reads
#   only, the rest for writes, too. A write to a shared block goes through the
#   file system, and the block is mapped afterwards. Others who open the image
#   to write wait for mapped I/O. Neither side gets anything of what the other
#   is given. Only the module starts the helper.
# modes: side-by-side
# machines: stable-side-by-side lts-side-by-side
# timeout: 300
. tests/lib/guard.sh
programs loopdev devfsx other pattern
seed

# reads_mapped N - a read of 64k at N times 64k is mapped
reads_mapped() {
	local before
	before=$(ios "$dev" mapped)
	dd if="$dev" of=/dev/null bs=64k skip="$1" count=1 iflag=direct \
		status=none
	more_ios "$dev" mapped "$before"
}

# shares DEVICE BYTES
shares() {
	mapped "$1" && [ "$(loop_stat "$1" mapped_shared_bytes)" = "$2" ]
}

# has_looked - has xfs looked whether the file still shares blocks?
has_looked() {
	[ "$(calls)" -gt 0 ]
}

begin_tracing
modprobe xfs
begin_fs xfs
later below_takes 0 0 0
written "$MNT/image" 8M 1
check "a clone" cp --reflink=always "$MNT/image" "$MNT/clone"
sync
dev=$(attach --read-only "$MNT/image")
wait_until 30 shares "$dev" $((8 << 20))
check "read-only: a read is mapped" reads_mapped 3
check "read-only: what it has" pattern check -d -q -s 1 "$dev" 8M
detach "$dev"
dev=$(attach "$MNT/image")
wait_until 30 shares "$dev" $((8 << 20))
is "mapped" "$(loop_stat "$dev" mapped_bytes)" $((8 << 20))
check "a read is mapped" reads_mapped 3
check "what it has" pattern check -d -q -s 1 "$dev" 8M
before=$(ios "$dev" file)
check "a write" pattern write -d -q -b 4k -s 2 -o 1M "$dev" 64k
more_ios "$dev" file "$before" || fail "a write to shared blocks was mapped"
check "is read" pattern check -d -q -b 4k -s 2 -o 1M "$dev" 64k
wait_until 30 shares "$dev" $(((8 << 20) - 65536))
wait_until 30 maps "$dev" $((8 << 20))
check "and read when it is mapped" \
	pattern check -d -q -b 4k -s 2 -o 1M "$dev" 64k
before=$(ios "$dev" mapped)
check "written once more" pattern write -d -q -b 4k -s 3 -o 1M "$dev" 64k
more_ios "$dev" mapped "$before" || fail "it is not mapped"
drop_caches
check "the clone is as it was" pattern check -q -s 1 "$MNT/clone" 8M
check "the device" pattern check -d -q -b 4k -s 3 -o 1M "$dev" 64k

# Who opens the image to write waits until mapped I/O has ended
wait_until 30 mapped "$dev"
before=$(ios "$dev" mapped)
below_takes 0 1000000 0
pattern write -d -n -q -b 4k -s 3 -o 1M "$dev" 64k &
writer=$!
wait_until 20 more_ios "$dev" mapped "$before"
refused "an opener to write" "*" other nonblock rw "$MNT/image"
kill -0 $writer || fail "the write did not hang"
below_takes 0 0 0
wait $writer || fail "the mapped write"
check "an opener who waits" timeout 60 xfs_io -c quit "$MNT/image"

refused "the helper by hand" "*No such device*" /usr/sbin/floop-extents "$CTL"

# Random operations, with the clone written to and cloned in turn
sum=$(sum_of "$MNT/clone")
for round in 1 2 3; do
	check "round $round: a clone of the image" \
		cp --reflink=always "$MNT/image" "$MNT/other"
	others=$(sum_of "$MNT/other")
	wait_until 30 mapped "$dev"
	devfsx -f "$MNT/image" -n 200 -j 3 -r 200 -s $((SEED + round)) "$dev"
	drop_caches
	is "round $round: the other clone" "$(sum_of "$MNT/other")" "$others"
	is "round $round: the first clone" "$(sum_of "$MNT/clone")" "$sum"
	check "round $round: the clone is written to" \
		pattern write -q -b 16k -s "$round" -o 2M "$MNT/clone" 2M
	sum=$(sum_of "$MNT/clone")
	rm "$MNT/other"
done

# Alone, all of it is mapped for writes. A slow machine may look before it is.
rm "$MNT/clone"
sync
count_calls xfs_file_fallocate
wait_until 100 shares "$dev" 0
check "all of it is written" pattern write -d -q -b 64k -s 9 "$dev" 8M
wait_unshared 8
goes_mapped "when nothing is shared" "$dev"
check "what it has" pattern check -d -q -b 64k -s 9 "$dev" 8M

# When xfs has found that, the image is mapped as any other, and once
for mapping in 0 1; do
	echo "$mapping" >"/sys/block/${dev#/dev/}/loop/mapping"
done
wait_until 60 has_looked
wait_mapped "$dev" 8
sleep 1
is "mapped as any other" "$(loop_stat "$dev" mapped_bytes)" $((8 << 20))
goes_mapped "as any other" "$dev"
check "what it has then" pattern check -d -q -b 64k -s 9 "$dev" 8M
detach "$dev"
rm "$MNT/image"

# Shared blocks that are found late: behind much else that has to be asked for
mkimage 96M "$MNT/image" >/dev/null
for ((at = 0; at < 64; at++)); do
	fallocate -o $((at * 128))k -l 4k "$MNT/image"
done
pattern write -q -s 1 -o 64M "$MNT/image" 4M
check "a clone of a sparse image" cp --reflink=always "$MNT/image" "$MNT/clone"
sync
dev=$(attach "$MNT/image")
wait_until 30 shares "$dev" $((4 << 20))
check "a write to it" pattern write -d -n -q -b 64k -s 5 -o 64M "$dev" 4M
check "is read" pattern check -d -q -b 64k -s 5 -o 64M "$dev" 4M
drop_caches
check "the clone is as it was" pattern check -q -s 1 -o 64M "$MNT/clone" 4M

# While somebody has pages of the image read into the page cache
detach "$dev"
rm "$MNT/image"
cp --reflink=always "$MNT/clone" "$MNT/image"
sync
dev=$(attach "$MNT/image")
for ((at = 0; at < 10; at++)); do
	xfs_io -r -c "fadvise -w 64m 64k" "$MNT/image"
	pattern write -d -n -q -b 4k -s 6 -o 65M "$dev" 64k
done
wait_until 30 reads_mapped 1040
drop_caches
check "the clone is still as it was" \
	pattern check -q -s 1 -o 64M "$MNT/clone" 4M
check "the device" pattern check -d -q -b 4k -s 6 -o 65M "$dev" 64k
detach "$dev"
end_fs
