#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: After a power cut, a write that was durable by itself (FUA) or by a
#   flush is found in blocks that were allocated ahead just before.
# modes: side-by-side
# machines: stable-side-by-side
# disks: nvme:1G nvme:3G
# timeout: 400
. tests/lib/guard.sh
. tests/lib/power.sh

# durably K fua|flush - a chunk at K times 1M, and a durable write to it
durably() {
	python3 tests/lib/durably.py "$dev" logged $(($1 << 20)) "$2" "$1"
}

# is_there K - after a cut
is_there() {
	cmp -n 4096 -i $((($1 << 20) + 16384)):0 "$WORK/below/image" \
		<(printf "$1%.0s" {1..4096})
}

power_disks
for fs in $(file_systems xfs); do
	wipefs -qa /dev/mapper/base
	make_fs "$fs" /dev/mapper/base
	mount -t "$fs" /dev/mapper/base "$WORK/below"
	mkimage 32M "$WORK/below/image" >/dev/null
	unmount "$WORK/below"
	dm_snapshot run base written
	echo "0 $(sectors /dev/mapper/run) log-writes" \
		/dev/mapper/run /dev/mapper/log | dmsetup create logged
	mount -t "$fs" /dev/mapper/logged "$WORK/below"
	dev=$(attach "$WORK/below/image")
	allocate "$dev" 64k
	wait_until 30 mapped "$dev"
	for k in 1 3 5 7; do
		durably $k fua
		durably $((k + 1)) flush
	done
	is "$fs: chunks" "$(loop_stat "$dev" zeroed_bytes)" $((8 * 61440))
	detach "$dev"
	unmount "$WORK/below"
	dm_remove logged
	dm_remove run

	from=0
	logreplay points /dev/mapper/log >"$WORK/points"
	while read -r to kind mark; do
		[ "$kind" = mark ] || continue
		logreplay run /dev/mapper/log /dev/mapper/base "$from" "$to" \
			>"$WORK/replayed"
		from=$to
		dm_snapshot look base looked
		mount -t "$fs" /dev/mapper/look "$WORK/below"
		for ((k = 1; k <= mark; k++)); do
			check "$fs: cut $mark: $k" is_there "$k"
		done
		unmount "$WORK/below"
		dm_remove look
	done <"$WORK/points"
	[ "$from" -gt 0 ] || fail "$fs: no cut was looked at"
done
