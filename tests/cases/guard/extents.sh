#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: An image of very many extents is mapped as a whole within the bound on
#   memory. With a smaller bound as much is mapped as fits, and the rest goes
#   through the file system, after a discard, too. By hand, EXTENTS=500000 has
#   that many (and needs a disk of 5G).
# modes: side-by-side
# machines: stable-side-by-side
# timeout: 900
. tests/lib/guard.sh
programs loopdev pattern

maps_bytes() {
	[ "$(loop_stat "$1" mapped_bytes)" = "$2" ]
}

memory=/sys/module/$MODULE/parameters/map_memory
later sh -c "echo 64 >$memory"

# pieces FILE - the file's, by the file system; neighbours on the disk are one
pieces() {
	filefrag -v "$1" | awk -F '[ .:]+' '
		$1 == "" && $2 ~ /^[0-9]+$/ {
			n += $5 != next_block; next_block = $6 + 1
		}
		END { print n }'
}

for fs in $(file_systems xfs); do
	# More than fit the smaller bound, on the file system that gets it
	extents=5000
	[ "$fs" = ext4 ] || extents=20000
	extents=${EXTENTS-$extents}
	on_disk "$fs" "$(the_disk 1)"
	# The map is filled in steps of 4 MiB. An extent across them is one.
	written "$MNT/whole" 64M 1
	dev=$(attach "$MNT/whole")
	wait_until 60 maps_bytes "$dev" $((64 << 20))
	is "$fs: a file in one piece" "$(loop_stat "$dev" mapped_extents)" \
		"$(pieces "$MNT/whole")"
	detach "$dev"
	rm "$MNT/whole"
	# Nor does it matter that it was written bit by bit.
	mkimage 16M "$MNT/holes" >/dev/null
	dev=$(attach "$MNT/holes")
	wait_until 30 mapped "$dev"
	pattern write -d -n -q -b 4k "$dev" 16M
	wait_mapped "$dev"
	found=$(loop_stat "$dev" mapped_extents)
	detach "$dev"
	is "$fs: a file written through the device" "$found" \
		"$(pieces "$MNT/holes")"
	rm "$MNT/holes"
	# Every other block of the file is there.
	pattern write -q -b 4k -k 8k "$MNT/image" $((extents * 8192))
	truncate -s $((extents * 8192)) "$MNT/image"
	dev=$(attach "$MNT/image")
	begun=$SECONDS
	full() {
		mapped "$dev" &&
			[ "$(loop_stat "$dev" mapped_extents)" -ge "$extents" ]
	}
	wait_until 300 full
	echo "$fs: $extents extents were mapped in $((SECONDS - begun)) s"
	is "$fs: extents in the map" "$(loop_stat "$dev" mapped_extents)" \
		"$extents"
	is "$fs: bytes mapped" "$(loop_stat "$dev" mapped_bytes)" \
		$((extents * 4096))
	bytes=$(loop_stat "$dev" mapped_memory)
	[ "$bytes" -le $((64 << 20)) ] || fail "$fs: the map takes $bytes bytes"
	echo "ok: $fs: the map takes $bytes bytes"
	was=$(ios "$dev" mapped)
	check "$fs: what the device holds" \
		pattern check -q -d -b 4k -k 8k "$dev" $((extents * 8192))
	is "$fs: I/Os mapped" "$(($(ios "$dev" mapped) - was >= extents))" 1
	detach "$dev"
	[ "$fs" = xfs ] || unmount "$MNT"
done

# The bound is the map's, whatever file system filled it.
echo 1 >"$memory"
dev=$(attach "$MNT/image")
fits=$(((1 << 20) / 64))
# stands AT-LEAST - as many are mapped, and none comes to them
stands() {
	local was now
	was=$(loop_stat "$dev" mapped_extents)
	[ "$was" -ge "$1" ] || return 1
	for _ in 1 2 3 4 5; do
		sleep 0.2
		now=$(loop_stat "$dev" mapped_extents)
		[ "$now" = "$was" ] || return 1
	done
}
wait_until 100 stands $((fits * 9 / 10))
count=$(loop_stat "$dev" mapped_extents)
[ "$count" -le "$fits" ] ||
	fail "$fs: of $fits extents that fit $count are mapped"
echo "ok: $fs: with room for $fits extents $count are mapped"
was=$(ios "$dev" file)
check "$fs: what the device holds with less memory" \
	pattern check -q -d -b 4k -k 8k "$dev" $((extents * 8192))
[ "$(ios "$dev" file)" -ge $((was + extents - count)) ] ||
	fail "$fs: I/O to unmapped extents bypassed the file system"
# The epoch after a discard leaves the full map as it is.
check "$fs: a discard" blkdiscard -l 64k "$dev"
wait_until 20 mapped "$dev"
wait_until 20 stands $((count - 8))
is "$fs: extents mapped after a discard" "$(loop_stat "$dev" mapped_extents)" \
	$((count - 8))
check "$fs: what was discarded" cmp -n 64K "$dev" /dev/zero
check "$fs: what is behind it" \
	pattern check -q -d -b 4k -k 8k -s 1 -o 64k "$dev" 1M
check "$fs: a write to a hole" \
	pattern write -d -q -b 4k -s 2 -o 68k "$dev" 4k
is "$fs: extents mapped after that" "$(loop_stat "$dev" mapped_extents)" \
	$((count - 8))
check "$fs: what was written" pattern check -d -q -b 4k -s 2 -o 68k "$dev" 4k
detach "$dev"
echo 64 >"$memory"
unmount "$MNT"
