#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: I/O across many extents, holes and fallocated blocks of a fragmented
#   image agrees with a model, while openers come and go. Writes across extents
#   that may not wait are done as a whole, or refused.
# modes: side-by-side
# machines: stable-side-by-side
# cpus: 2
# timeout: 400
. tests/lib/guard.sh
programs loopdev pattern devfsx
seed
head -c 128K /dev/zero | tr '\0' '\7' >"$WORK/sevens"

for fs in $(file_systems xfs); do
	begin_fs "$fs"
	# Two files that grow by turns, with holes, and parts that are only
	# allocated
	mkimage 8M "$MNT/image" >/dev/null
	mkimage 8M "$MNT/other" >/dev/null
	echo "file 0" >"$WORK/commands"
	for ((i = 0; i < 128; i += 1)); do
		case $((i % 4)) in
		0 | 1)
			printf 'pwrite -q %dk 64k\nfsync\n' $((i * 64))
			;;
		2) printf 'falloc %dk 64k\n' $((i * 64)) ;;
		esac
		printf 'file 1\npwrite -q %dk 64k\nfsync\nfile 0\n' $((i * 64))
	done >>"$WORK/commands"
	xfs_io -d "$MNT/image" "$MNT/other" <"$WORK/commands" >/dev/null
	dev=$(attach "$MNT/image")
	wait_mapped "$dev" 4
	extents=$(loop_stat "$dev" mapped_extents)
	[ "$extents" -ge 16 ] ||
		fail "$fs: only $extents extents: not fragmented"
	echo "ok: $fs: $extents extents"
	mapped=$(ios "$dev" mapped)
	check "$fs: one large read" dd if="$dev" of=/dev/null bs=4M iflag=direct
	more_ios "$dev" mapped $((mapped + 16)) ||
		fail "$fs: the read was not split"
	# What may not wait is served as a whole, or refused.
	udev_settle
	blockdev --flushbufs "$dev"
	for ((i = 0; i < 8; i++)); do
		at=$((i * 512 + 32))k
		out=$(xfs_io -d -c "pwrite -q -N -V 1 -b 128k -S 7 $at 128k" \
			"$dev" 2>&1) || true
		case $out in
		"") check "$fs: a write that did not wait" \
			cmp -n 128K -i "${at^^}:0" "$dev" "$WORK/sevens" ;;
		*"temporarily unavailable") echo "ok: $fs: refused" ;;
		*) fail "$fs: a write that may not wait: $out" ;;
		esac
	done
	(while :; do head -c 1 "$MNT/image" >/dev/null; sleep 0.3; done) &
	opener=$!
	check "$fs: random I/O" devfsx -f "$MNT/image" -n "$(more 200)" \
		-j 2 -s "$SEED" "$dev"
	kill "$opener"
	wait "$opener" || true
	detach "$dev"
	end_fs
done
