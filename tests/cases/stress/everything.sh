#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: Many processes attach, detach, configure, open, scan, resize and use
#   the same few devices at once, and do no harm. Nothing hangs, the kernel
#   reports nothing, the data of a device that stays attached is right, and the
#   module can be removed.
# modes: side-by-side
# machines: stable-side-by-side
# cpus: 2
# timeout: 400
. tests/lib/case.sh
programs loopdev stress devfsx
seed

on_disk ext4
mkdir "$WORK/memory" "$MNT/images"
mkimage 8M "$MNT/steady" >/dev/null
steady=$(loop_attach direct "$MNT/steady")
stress -t "$(more 10 180)" -s "$SEED" -b 40 "$MNT/images" &
on_files=$!
stress -t "$(more 10 180)" -s $((SEED + 1)) -b 60 -d 4 "$WORK/memory" &
in_memory=$!
runs=0
while kill -0 "$on_files" 2>/dev/null; do
	devfsx -f "$MNT/steady" -n 100 -j 2 -s $((SEED + runs)) \
		"$steady" >"$WORK/out" || {
		cat "$WORK/out"
		fail "the device that stays attached"
	}
	runs=$((runs + 1))
done
wait "$on_files"
wait "$in_memory"
echo "ok: the device that stays attached was right in $runs runs"
loopdev detach "$steady"

udev_settle
for _ in 1 2 3 4 5 6 7 8 9 10; do
	rmmod "$MODULE" 2>/dev/null && break
	sleep 0.5
done
[ ! -e "/sys/module/$MODULE" ] || fail "the module cannot be removed"
echo "ok: the module is removed"
insert
wait_until 10 test -e "$CTL"
