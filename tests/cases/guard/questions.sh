#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: The fill asks the file system about what was written to holes, once or
#   twice each, and of the holes around it nothing, for they are known. For so
#   few questions no helper is started.
# modes: side-by-side
# machines: stable-side-by-side
# timeout: 120
. tests/lib/guard.sh
programs loopdev pattern

cat >"$WORK/helper" <<-END
	#!/bin/sh
	touch "$WORK/started"
END
chmod +x "$WORK/helper"
set_helper "$WORK/helper"
begin_tracing

# asked FUNCTION - meanwhile, $n
asked() {
	count_calls "$1"
	n=$(calls)
	# Writes of 4k, to be looked up while the next ones come
	check "$fs: 100 writes" pattern write -d -n -q -b 4k -k 640k -s 1 \
		"$dev" 64000k
	wait_until 30 maps "$dev" $((100 * 4096))
	n=$(($(calls) - n))
	stop_counting
	blkdiscard "$dev"
	wait_until 30 maps "$dev" 0
	for at in 0 20 40 62; do
		wait_until 20 reads_hole $((at << 20)) 4096
	done
}

for fs in ext4 xfs; do
	begin_fs "$fs"
	mkimage $((64 << 20)) "$MNT/image" >/dev/null
	dev=$(attach "$MNT/image")
	allocate "$dev" off
	wait_until 30 mapped "$dev"
	wait_until 20 reads_hole 0 4096
	asked floop_look_block
	[ "$n" -le 300 ] || fail "$fs: asked for a block $n times"
	echo "ok: $fs: asked for a block $n times"
	asked floop_look_empty
	[ "$n" -le 60 ] || fail "$fs: asked what a hole is $n times"
	echo "ok: $fs: asked what a hole is $n times"
	detach "$dev"
	end_fs
done
[ ! -e "$WORK/started" ] || fail "a helper was started"
