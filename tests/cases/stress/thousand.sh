#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: 1,000 devices can be attached at once and all work. The case prints
#   what each costs in memory and seconds, next to the in-tree driver.
# kernels: stable
# modes: side-by-side
# timeout: 400
# long: yes
. tests/lib/case.sh
programs many

devices=${DEVICES:-$(more 1000 200)}
# udev looks at each device, which would take most of the time.
without_udev
mkdir "$WORK/images"
many "$devices" "$WORK/images"
if [ "$DRIVER_MODE" = side-by-side ]; then
	modprobe loop
	CTL=/dev/loop-control many $((devices / 5)) "$WORK/images"
	for _ in 1 2 3 4 5 6 7 8 9 10; do
		rmmod loop 2>/dev/null && break
		sleep 0.5
	done
	rmmod "$MODULE"
	echo "ok: the module is removed"
	insert
	wait_until 10 test -e "$CTL"
fi
