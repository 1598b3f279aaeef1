#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: The file system of a cloned image is frozen when it is time to have xfs
#   look whether the image still shares blocks. The driver doesn't: that would
#   wait for the thaw. Reads go on, and mapping can be turned off and on. After
#   the thaw, xfs looks, and the image is mapped. Nor does the driver ask while
#   the image is immutable.
# modes: side-by-side
# machines: stable-side-by-side
# timeout: 300
. tests/lib/guard.sh
programs loopdev pattern other

set_helper ""

read_goes_on() {
	check "$1" timeout 60 dd if="$dev" of=/dev/null bs=64k count=8 \
		iflag=direct status=none
}

begin_tracing
begin_fs xfs
count_calls xfs_file_fallocate
later thaw "$MNT"
written "$MNT/image" 8M 1
cp --reflink=always "$MNT/image" "$MNT/twin"
dev=$(attach "$MNT/image")
wait_until 20 reads_shared
rm "$MNT/twin"
sync
fsfreeze -f "$MNT"
before=$(calls)
for second in {1..14}; do
	read_goes_on "second $second: a read"
	sleep 1
done
for mapping in 0 1; do
	check "mapping $mapping" timeout 60 bash -c \
		"echo $mapping >/sys/block/${dev#/dev/}/loop/mapping"
done
is "how often xfs was to look" "$(calls)" "$before"
fsfreeze -u "$MNT"
wait_unshared 8
[ "$(calls)" -gt "$before" ] || fail "xfs never looked"
goes_mapped "after the thaw" "$dev"

# Nobody may change an immutable image, as unsharing does
check "a clone" cp --reflink=always "$MNT/image" "$MNT/twin"
wait_until 30 maps_nothing
other flags "$MNT/image" +0x8
before=$(calls)
sleep 14
is "how often xfs was to change an immutable image" "$(calls)" "$before"
other flags "$MNT/image" -0x8
rm "$MNT/twin"
wait_unshared 8
check "what it has" pattern check -d -q -s 1 "$dev" 8M
detach "$dev"
end_fs
