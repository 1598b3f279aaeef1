#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: A device that floop attach --autoclear made in a oneshot unit of
#   systemd stays when the unit has ended, and is detached after its first user.
#   Where nothing can keep it, attach says so.
# modes: drop-in in-tree
# machines: stable-drop-in stable-in-tree
# init: systemd
# long: yes
. tests/lib/users.sh
. tests/lib/cli.sh

nobody_holds() {
	! pgrep --runstates R,S,D -x floop-hold >"$WORK/holders"
}

# in_unit [PROPERTY]... - attach in a unit, until that has ended: $device
in_unit() {
	check "a oneshot unit" systemd-run --wait --quiet --collect \
		--property=Type=oneshot "${@/#/--property=}" \
		"$FLOOP" attach --autoclear "$image"
	device=$(device_of "$image")
}

image=$(mkimage 32M)
mkfs.ext4 -q -F "$image"
mkdir "$WORK/mnt"

in_unit
sleep 1
matches "attached after its end" "$device" "/dev/loop*"
is "and a second later" "$(device_of "$image")" "$device"
holder=$(pgrep -x floop-hold)
is "the unit that holds it" "$(status "$device" unit)" \
	"$(ps --no-headers -o unit "$holder")"
mount "$device" "$WORK/mnt"
later unmount "$WORK/mnt"
wait_until 20 nobody_holds
is "while it is mounted" "$(device_of "$image")" "$device"
unmount "$WORK/mnt"
gone "$image"

in_unit
check "detach before the first user" "$FLOOP" detach "$device"
gone "$image"
wait_until 20 nobody_holds
is "units that are left" "$(systemctl list-units --all --plain --no-legend \
	'run-*.service')" ""

# A service that can't ask systemd for another one
in_unit InaccessiblePaths=/run/systemd/private InaccessiblePaths=/run/dbus \
	"StandardError=file:$WORK/said"
matches "what attach says" "$(<"$WORK/said")" \
	"floop: warning: /dev/loop*: is detached when run-*.service ends, *"
gone "$image"
