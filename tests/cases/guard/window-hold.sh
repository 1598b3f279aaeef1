#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: The image's owner calls XFS_IOC_SWAPEXT with a descriptor that it
#   opened while xfs_scrub looked at the image. While a mapped write is on its
#   way to the disk no blocks are exchanged, and the write lands in no other
#   file, whether or not files can share blocks.
# kernels: stable
# modes: side-by-side
# cpus: 2
# module: debug
# timeout: 800
. tests/lib/guard.sh
load_debug
programs loopdev pattern exchange

exchange_ended() {
	[ ! -e "/proc/$exchanger" ] ||
		waits_in "$exchanger" "xfs_swap_extents\|__break_lease"
}

# attempt - true if the blocks were exchanged with a write on its way
attempt() {
	wait_mapped "$dev"
	udev_settle
	window 30000 SUBMIT HOLD
	pattern write -d -n -q -b 64k -s 3 "$dev" 64k &
	writer=$!
	later stop_writes $writer
	wait_until 20 in_window SUBMIT
	setpriv --reuid 1000 --regid 1000 --clear-groups \
		exchange "$MNT/image" "$MNT/donor" >"$WORK/out" 2>&1 &
	exchanger=$!
	later stop_writes $exchanger
	wait_until 30 exchange_ended
	sleep 0.1
	! in_window HOLD || held=$((held + 1))
	if [ ! -e "/proc/$exchanger" ] && grep -q exchanged "$WORK/out" &&
		in_window SUBMIT; then
		return 0
	fi
	window 0
	wait $writer || fail "a write"
	wait $exchanger || true
	return 1
}

# with_reflink 0|1
with_reflink() {
	local end early=no held=0 scrub said
	begin_tight_xfs "$1"
	written "$MNT/image" 4M 1
	written "$MNT/donor" 4M 2
	chown 1000 "$MNT/image" "$MNT/donor"
	sync
	fill_up 2
	coproc SCRUB { exchange scrub "$MNT/image"; }
	scrub=$SCRUB_PID
	later stop_writes "$scrub"
	exec 7>&"${SCRUB[1]}"
	read -r -u "${SCRUB[0]}" said
	is "xfs_scrub" "$said" looking
	dev=$(attach "$MNT/image")

	end=$((SECONDS + 300 * ${SLOWER:-1}))
	while [ "$held" -lt 1 ] && [ "$SECONDS" -lt "$end" ]; do
		if attempt; then
			early=yes
			break
		fi
	done
	[ $held -gt 0 ] || fail "xfs_scrub never had the lock"
	if [ $early = yes ]; then
		rm "$MNT/donor"
		others_file 4
		window 0
		wait "$writer" || fail "the write"
		others_file_is_right "written late"
	fi
	is "exchanged with a write on its way" $early no
	eval "exec ${SCRUB[1]}>&-"
	exec 7>&-
	wait "$scrub" || true
	detach "$dev"
	end_fs
}

fs=xfs
with_reflink 1
with_reflink 0
