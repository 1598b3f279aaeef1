#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: An image that grows from 8 MiB to 64 GiB while its device is written to
#   and discarded loses nothing. What is written to its new part is mapped.
# modes: side-by-side
# machines: stable-side-by-side
# cpus: 2
# module: debug
. tests/lib/guard.sh
load_debug
programs loopdev pattern

# write_on OFFSET - blocks in holes, as soon as the device is large enough
write_on() {
	until pattern write -d -n -q -b 4k -k 8m -s 3 -o "$1" "$dev" 1G; do
		sleep 0.05
	done >/dev/null 2>&1
}

# discard_on OFFSET - as soon as the device is large enough
discard_on() {
	until blkdiscard -o "$1" -l 64k "$dev"; do
		sleep 0.05
	done >/dev/null 2>&1
}

for fs in $(file_systems ext4); do
	begin_mapped "$fs" 8M
	truncate -s 64G "$MNT/image"
	window 2000 GROW
	write_on 8g &
	writer=$!
	write_on 56g &
	other=$!
	discard_on 24g &
	discard=$!
	check "$fs: its new size" loopdev capacity "$dev"
	wait "$writer" || fail "$fs: writes"
	wait "$other" || fail "$fs: writes at the end"
	wait "$discard" || fail "$fs: a discard"
	window 0
	is "$fs: its size" "$(blockdev --getsize64 "$dev")" $((64 << 30))
	for gib in 8 56; do
		check "$fs: what was written meanwhile" \
			pattern check -d -q -b 4k -k 8m -s 3 -o "${gib}g" \
			"$dev" 1G
	done
	check "$fs: a write to the new part" \
		pattern write -d -q -s 2 -o 32g "$dev" 2M
	# 256 blocks of 4 KiB are another MiB
	wait_mapped "$dev" 11
	# udev's reads of holes go through the file
	udev_settle
	before=$(ios "$dev" file)
	check "$fs: what is there" pattern check -d -q -s 2 -o 32g "$dev" 2M
	is "$fs: of that, through the file" "$(($(ios "$dev" file) - before))" 0
	check "$fs: what was there" pattern check -d -q -s 1 "$dev" 8M
	detach "$dev"
	end_fs
done
