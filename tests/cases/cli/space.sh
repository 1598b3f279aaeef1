#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: status says how much of its file system an image takes, and how much of
#   that it shares with other files, with either driver. It leaves a mapped
#   image mapped.
# modes: side-by-side
# machines: stable-side-by-side
. tests/lib/cli.sh
. tests/lib/guard.sh
programs loopdev pattern

# takes ALLOCATED SHARED - in MiB
takes() {
	is "allocated" "$(status "$dev" allocated)" $(($1 << 20))
	is "shared" "$(status "$dev" shared)" $(($2 << 20))
}

# shares MEGABYTES - it isn't known while the image may be about to be mapped
shares() {
	[ "$(status "$dev" shared)" = $(($1 << 20)) ]
}

for fs in $(file_systems xfs); do
	begin_fs "$fs"
	for driver in loop floop; do
		echo "--- $fs, $driver"
		mkimage 16M "$MNT/image" >/dev/null
		dev=$("$FLOOP" attach --driver "$driver" "$MNT/image")
		takes 0 0
		pattern write -d -q -s 1 "$dev" 8M
		sync "$dev"
		[ "$driver" = loop ] || wait_mapped "$dev" 8
		takes 8 0
		[ "$driver" = loop ] || is "epochs broken" "$(broken "$dev")" 0
		if [ "$fs" = xfs ]; then
			xfs_io -f -c "reflink $MNT/image 0 0 4m" "$MNT/clone"
			wait_until 30 shares 4
			is "allocated, with a clone" \
				"$(status "$dev" allocated)" $((8 << 20))
			matches "as text" "$("$FLOOP" status "$dev")" \
				"*shared:*4194304 (4 MiB) with other files*"
		fi
		rm "$MNT/image"
		is "deleted" "$(status "$dev" allocated)" null
		mkimage 1M "$MNT/image" >/dev/null
		is "another file of its name" "$(status "$dev" allocated)" null
		"$FLOOP" detach "$dev"
		rm "$MNT"/{image,clone} 2>/dev/null || true
	done
	if [ "$fs" = ext4 ]; then
		fallocate -l 4M "$MNT/image"
		dev=$("$FLOOP" attach "$MNT/image")
		wait_until 30 mapped "$dev"
		takes 4 0
		is "epochs broken, with nothing mapped" "$(broken "$dev")" 0
		"$FLOOP" detach "$dev"
	fi
	end_fs
done
