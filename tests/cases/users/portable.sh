#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: A portable service is attached from an image, runs from it and is
#   detached.
# modes: drop-in in-tree
# machines: stable-drop-in stable-in-tree
# init: systemd
# long: yes
. tests/lib/users.sh

tree "$WORK/floopsvc"
mkdir -p "$WORK/floopsvc/usr/lib/systemd/system"
echo PORTABLE_PREFIXES=floopsvc >>"$WORK/floopsvc/usr/lib/os-release"
cat >"$WORK/floopsvc/usr/lib/systemd/system/floopsvc.service" <<-'END'
	[Service]
	Type=exec
	StateDirectory=floopsvc
	ExecStart=/bin/sh -c "busybox sha256sum /usr/lib/noise \
		> $$STATE_DIRECTORY/sum; exec busybox sleep infinity"
END
image=$(os_image "$WORK/floopsvc")
sum=$(sum_of "$WORK/floopsvc/usr/lib/noise")

later systemctl stop systemd-portabled.service
later rm -rf /var/lib/floopsvc /var/lib/private/floopsvc
matches "inspect" "$(portablectl --no-pager inspect "$image")" \
	"*floopsvc.service*"
check "attach" portablectl attach --runtime "$image"
later portablectl detach --runtime "$image"
gone "$image"
check "start" systemctl start floopsvc.service
later systemctl stop floopsvc.service
device=$(device_of "$image")
[ -n "$device" ] || fail "the service runs, but its image is not attached"
ours "$device"
wait_until 30 test -s /var/lib/floopsvc/sum
is "what the service has read" "$(cut -d ' ' -f 1 /var/lib/floopsvc/sum)" "$sum"
check "stop" systemctl stop floopsvc.service
gone "$image"
check "detach" portablectl detach --runtime "$image"
later_commands=("${later_commands[@]:0:2}")
gone "$image"
