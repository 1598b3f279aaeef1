#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: With --discard keep, given to attach or set, a discard succeeds, frees
#   no block of the image and leaves it mapped, and a flush after it, too. So
#   does a write of zeroes. With --discard pass, and after the next attach,
#   discards free blocks. A failing set leaves the setting as it was.
# modes: side-by-side drop-in
# machines: stable-side-by-side
. tests/lib/cli.sh
. tests/lib/guard.sh
programs loopdev pattern

has() {
	is "$1: blocks of the image" "$(stat -c %b "$MNT/image")" "$2"
}

reads() {
	check "$1" pattern check -d -q -s 1 "$dev" 8M
}

zeroes_limit() {
	attr "$dev" queue/write_zeroes_max_bytes
}

# discards - how many the block layer has counted
discards() {
	awk '{ print $12 }' "/sys/block/${dev#/dev/}/stat"
}

for fs in $(file_systems ext4); do
	begin_fs "$fs"
	written "$MNT/image" 8M 1
	full=$(stat -c %b "$MNT/image")
	dev=$("$FLOOP" attach --discard keep "$MNT/image")
	wait_mapped "$dev"
	is "the setting" "$(attr "$dev" loop/discard)" keep
	is "in the status" "$(status "$dev" discard)" keep
	check "$fs: discard all" blkdiscard "$dev"
	has "$fs: after a discard" "$full"
	reads "$fs: it did nothing"
	echo 0 >"/sys/block/${dev#/dev/}/queue/iostats"
	before=$(discards)
	check "$fs: uncounted" blkdiscard "$dev"
	is "$fs: discards counted" "$(discards)" "$before"
	echo 1 >"/sys/block/${dev#/dev/}/queue/iostats"
	check "$fs: counted" blkdiscard "$dev"
	[ "$(discards)" -gt "$before" ] || fail "$fs: none is counted"
	has "$fs: after more discards" "$full"
	check "$fs: a flush" sync "$dev"
	is "$fs: flushes through the file" "$(ios "$dev" file_flush)" 0
	is "$fs: write-zeroes" "$(zeroes_limit)" 0
	check "$fs: zeroes" blkdiscard -z -o 4M -l 4M "$dev"
	has "$fs: after zeroes" "$full"
	refused "$fs: a hole" "*unsupported*" \
		fallocate --punch-hole -o 2M -l 2M "$dev"
	has "$fs: after that" "$full"
	is "$fs: what is mapped" "$(loop_stat "$dev" mapped_bytes)" \
		$((8 << 20))
	check "$fs: they are" cmp -n 4M -i 4M:0 "$dev" /dev/zero

	refused "another word" "*nvalid argument*" \
		bash -c "echo free >/sys/block/${dev#/dev/}/loop/discard"
	is "and changes nothing" "$(attr "$dev" loop/discard)" keep
	check "pass" "$FLOOP" set "$dev" --discard pass
	[ "$(zeroes_limit)" -gt 0 ] || fail "$fs: no write-zeroes after that"
	check "$fs: discard a half" blkdiscard -l 4M "$dev"
	has "$fs: after that discard" $((full / 2))
	check "keep" "$FLOOP" set "$MNT/image" --discard keep
	detach "$dev"
	dev=$("$FLOOP" attach "$MNT/image")
	is "the next attach" "$(attr "$dev" loop/discard)" pass
	detach "$dev"
	end_fs
done

dev=$("$FLOOP" attach --discard keep "$(mkimage 1M)")
ends_with 7 "*is not on ext4 or xfs*" set "$dev" --discard pass --mapping on
is "after a failing set" "$(attr "$dev" loop/discard)" keep
detach "$dev"
