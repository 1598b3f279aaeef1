#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: A file system can be frozen while a mapped write has pages to drop and
#   all workers of the device wait for the thaw.
# modes: side-by-side
# cpus: 2
# timeout: 240
. tests/lib/guard.sh

# With one worker for the device, it is enough that this one waits
later load_module "$MODULE_FILE"
load_module "$MODULE_FILE" hw_queue_depth=1
programs loopdev pattern uncounted

for fs in ext4 xfs; do
	begin_fs "$fs"
	later dmsetup resume below
	written "$MNT/image" 8M 1
	truncate -s 64M "$MNT/image"
	open_uncounted "$MNT/image"
	dev=$(attach "$MNT/image")
	wait_mapped "$dev" 8
	udev_settle
	mapped=$(ios "$dev" mapped)
	dmsetup suspend --noflush --nolockfs below
	pattern write -d -n -q -b 64k -s 2 "$dev" 64k &
	writer=$!
	wait_until 20 more_ios "$dev" mapped "$mapped"
	later thaw "$MNT"
	fsfreeze -f "$MNT" &
	freezer=$!
	wait_until 20 waits_in "$freezer" freeze_super
	# A hole: through the file system
	pattern write -d -n -q -b 64k -s 3 -o 32M "$dev" 64k &
	hole=$!
	sleep 1
	# A suspended disk fails what is read ahead, and floop drops the pages
	is "$fs: pages of it" "$(ask willneed 0 64k)" ok
	dmsetup resume below
	wait "$freezer" || fail "$fs: the freeze failed"
	echo "ok: $fs: frozen"
	fsfreeze -u "$MNT"
	wait "$writer" || fail "$fs: the mapped write failed"
	wait "$hole" || fail "$fs: the write to the hole failed"
	close_uncounted
	check "$fs: the mapped write" pattern check -d -q -b 64k -s 2 "$dev" 64k
	check "$fs: the other one" \
		pattern check -d -q -b 64k -s 3 -o 32M "$dev" 64k
	detach "$dev"
	end_fs
done
