#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: A disk below the image that fails, for a while or now and then, gives
#   EIO on the device. Nothing hangs and no data is wrong. Once the disk works
#   again, all acknowledged data is there.
# kernels: stable
# modes: drop-in
# timeout: 400
. tests/lib/case.sh
programs loopdev pattern ackio
seed

disk=$(the_disk 1)
size=$((400 * 2048))

well="0 $size linear $disk 0"
dead="0 $size error"
# a second well, a second ill: reads and writes give EIO
flaky="0 $size flakey $disk 0 1 1"

# well_again - the disk works again: the file system on it recovers, and the
# image is attached again: $dev
well_again() {
	loopdev detach "$dev"
	dm_becomes flaky "$well"
	unmount "$WORK/$fs"
	mount -t "$fs" /dev/mapper/flaky "$WORK/$fs"
	dev=$(loop_attach "$how" "$image")
}

dmsetup create flaky --table "$well"
later dm_remove flaky

for fs in ext4 xfs; do
	for how in $([ "$fs" = xfs ] || echo buffered) direct; do
		dm_becomes flaky "$well"
		make_fs "$fs" /dev/mapper/flaky
		mkdir -p "$WORK/$fs"
		mount -t "$fs" /dev/mapper/flaky "$WORK/$fs"
		image=$WORK/$fs/image
		pattern write -q "$image" 8M
		dev=$(loop_attach "$how" "$image")
		pattern write -q -d -s 1 "$dev" 8M

		# A dead disk: only cached data can be read, and nothing can be
		# made durable.
		drop_caches
		dm_becomes flaky "$dead"
		status=0
		out=$(pattern check -d -s 1 "$dev" 8M) || status=$?
		is "$fs $how: a dead disk: read" "$status: $out" \
			"3: EIO check 0"
		status=0
		out=$(pattern write -d -s 2 -o 4M "$dev" 1M) || status=$?
		is "$fs $how: a dead disk: write" "$status" 3
		matches "$fs $how: a dead disk: write" "$out" "EIO *"
		status=0
		out=$(pattern write -s 2 -o 5M "$dev" 1M) || status=$?
		is "$fs $how: a dead disk: buffered write" "$status" 3
		matches "$fs $how: a dead disk: buffered write" "$out" "EIO *"

		# All acknowledged data is there.
		well_again
		check "$fs $how: well again: what was acknowledged" \
			pattern check -d -s 1 "$dev" 4M
		check "$fs $how: well again: what was acknowledged" \
			pattern check -s 1 -o 6M "$dev" 2M
		check "$fs $how: well again: writes" \
			pattern write -d -s 3 "$dev" 8M

		# Now and then: the sectors' versions tell
		dd if=/dev/zero of="$dev" bs=1M count=8 oflag=direct \
			conv=fsync status=none
		rm -f "$WORK/state"
		ackio run "$dev" 300 "$SEED" "$WORK/state"
		dm_becomes flaky "$flaky"
		out=$(ackio run "$dev" "$(more 400)" $((SEED + 1)) \
			"$WORK/state")
		echo "$fs $how: now and then: $out"
		well_again
		check "$fs $how: well again: all versions are right" \
			ackio check "$dev" "$WORK/state"
		loopdev detach "$dev"
		unmount "$WORK/$fs"
		case $fs in
		ext4) check "$fs below is clean" fsck.ext4 \
			-fp /dev/mapper/flaky ;;
		xfs) check "$fs below is clean" xfs_repair \
			-n /dev/mapper/flaky ;;
		esac
	done
done

# The disk itself as the image: no file system shuts itself down, so I/O goes on
# after each error.
dev=$(loop_attach direct -s 8M /dev/mapper/flaky)
dd if=/dev/zero of="$dev" bs=1M count=8 oflag=direct conv=fsync status=none
rm -f "$WORK/state"
ackio run "$dev" 200 "$SEED" "$WORK/state"
dm_becomes flaky "$flaky"
out=$(ackio run "$dev" "$(more 600)" $((SEED + 2)) "$WORK/state")
echo "a flaky disk: $out"
dm_becomes flaky "$well"
check "a flaky disk, well again" ackio check "$dev" "$WORK/state"
loopdev detach "$dev"
