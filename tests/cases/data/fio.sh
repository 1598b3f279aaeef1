#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: fio's verification passes for images direct and buffered, aligned and
#   not: with blocks of 512 bytes to 1 MiB, through libaio, io_uring and psync.
# kernels: lts
# modes: drop-in
# timeout: 400
# long: yes
. tests/lib/case.sh
programs loopdev

# One job for every block size and engine, each on its own part of the device
jobs() {
	local engine size n=0
	cat <<-END
		[global]
		filename=$1
		direct=1
		rw=randwrite
		verify=crc32c
		verify_fatal=1
		do_verify=1
		randseed=42
		size=$2
		thread=1
		group_reporting=1
	END
	for engine in libaio io_uring psync; do
		for size in 512 1k 4k 64k 1M; do
			case $size in
			512 | 1k) [ "$(blockdev --getss "$1")" = 512 ] ||
				size=8k ;;
			esac
			cat <<-END
				[$engine-$size-$n]
				ioengine=$engine
				iodepth=16
				bs=$size
				offset=$((n << 20))
				io_size=$([ "$size" = 512 ] &&
					echo 128k || echo 512k)
			END
			n=$((n + 1))
		done
	done
}

on_disk xfs
noise "$MNT/full" 18
for image in direct:0:full direct:0:sparse direct:1049088:full \
	buffered:0:sparse buffered:512:full; do
	IFS=: read -r how offset kind <<<"$image"
	mkimage 18M "$MNT/sparse" >/dev/null
	dev=$(loop_attach "$how" -o "$offset" -s 16M "$MNT/$kind")
	jobs "$dev" 1M >"$WORK/jobs"
	fio --minimal --aux-path="$WORK" "$WORK/jobs" >"$WORK/out" || {
		cat "$WORK/out"
		fail "fio: $image"
	}
	sync "$dev"
	cmp -n $((15 << 20)) "$dev" "$MNT/$kind" 0 "$offset"
	echo "ok: $image, is direct: $(dio "$dev")"
	loopdev detach "$dev"
done
