# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
# modprobe, and what of floop it knows. Sourcing it has floop's module found, as
# `make install` leaves it, beside the in-tree driver, until the case ends;
# nothing is configured.
[ -z "${MODPROBE_SH-}" ] || return 0
MODPROBE_SH=1
. tests/lib/case.sh

# The module tree, and files in modprobe.d, gone at the end
TREE=$WORK/lib/modules/$(uname -r)
DROP_IN_CONF=/etc/modprobe.d/floop-test.conf
OTHER_CONF=/etc/modprobe.d/floop-test-options.conf
export TREE DROP_IN_CONF OTHER_CONF

mkdir -p "$TREE"/{updates,kernel/drivers/block}
cp "$MODULE_FILE" "$TREE/updates/"
for file in "/lib/modules/$(uname -r)/kernel/drivers/block"/loop.ko*; do
	# Where it is no module, there is none.
	[ ! -e "$file" ] || cp "$file" "$TREE/kernel/drivers/block/"
done
cp "/lib/modules/$(uname -r)"/modules.{order,builtin,builtin.modinfo} "$TREE/"
depmod -b "$WORK"
mount --bind "$WORK/lib/modules" /lib/modules
# udev has opened files there.
later umount --lazy /lib/modules
later rm -f "$DROP_IN_CONF" "$OTHER_CONF"

unload() {
	udev_settle
	wait_until 20 modprobe --quiet --remove "$1"
}

# quiet COMMAND... - it must succeed, and print nothing
quiet() {
	local said
	said=$("$@" 2>&1) || fail "$*: $said"
	is "$*" "$said" ""
}

# who_serves - the driver of loop devices: floop, loop or none
who_serves() {
	if grep -qsx loop /sys/module/floop/parameters/names; then
		echo floop
	elif [ -e /sys/devices/virtual/misc/loop-control ]; then
		echo loop
	else
		echo none
	fi
}

# serves NAME - it is that one: floop or loop
serves() {
	is "who serves" "$(who_serves)" "$1"
	wait_until 20 test -e /dev/loop-control
}

# parameter NAME - its value
parameter() {
	cat "/sys/module/floop/parameters/$1"
}

# boot_loads - load what the drop-in has systemd load at boot
boot_loads() {
	SYSTEMD_LOG_LEVEL=warning /usr/lib/systemd/systemd-modules-load \
		"$PWD/drop-in/modules-load.conf"
}
