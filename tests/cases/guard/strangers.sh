#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: A user who may not change an image, and tries to change its mode, times
#   or owner by path, doesn't keep it from being mapped.
# modes: side-by-side
# machines: stable-side-by-side
. tests/lib/guard.sh
programs loopdev pattern

# as_nobody COMMAND... - fails, for it may not
as_nobody() {
	refused "$fs: $1" "*not permitted*" \
		setpriv --reuid 65534 --regid 65534 --clear-groups "$@"
}

chmod 755 "$WORK"
for fs in $(file_systems xfs); do
	begin_mapped "$fs" 8M
	chmod 755 "$MNT"
	exec 8<"$MNT/image"
	chmod 600 "$MNT/image"
	exec 8<&-
	wait_mapped "$dev"
	before=$(broken "$dev")
	for _ in 1 2 3; do
		as_nobody chmod 777 "$MNT/image"
		# Not touch(1): that opens it
		as_nobody python3 -c "import os; os.utime('$MNT/image', (1, 1))"
		as_nobody chown 65534 "$MNT/image"
	done
	is "$fs: epochs broken by it" $(($(broken "$dev") - before)) 0
	goes_mapped "$fs: after that" "$dev"
	detach "$dev"
	end_fs
done
