#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: systemd-nspawn runs a container from an image, which keeps what was
#   written there.
# modes: drop-in in-tree
# machines: stable-drop-in stable-in-tree
# init: systemd
# long: yes
. tests/lib/users.sh

tree "$WORK/system"
image=$(os_image "$WORK/system")
sum=$(sum_of "$WORK/system/usr/lib/noise")

# inside [OPTION]... COMMAND - a shell command in a container of the image
inside() {
	systemd-nspawn --quiet --console=pipe --settings=no \
		--machine=floop-test "${@:1:$#-1}" --image="$image" \
		/bin/sh -c "${*: -1}" </dev/null
}

out=$(inside "cat /etc/os-release; busybox sha256sum /usr/lib/noise
	busybox grep ' / ' /proc/mounts; busybox cp /usr/lib/noise /root/copy")
matches "the system in it" "$out" "*A small system*$sum* / ext4 *"
matches "what was mounted" \
	"$(dmesg | sed -n 's/.*EXT4-fs (\(.*\)): mounted.*/\1/p' | tail -n 1)" \
	"loop*p1"
gone "$image"
is "what was written there" "$(inside "busybox sha256sum /root/copy")" \
	"$sum  /root/copy"
gone "$image"
out=$(inside --read-only "busybox touch /root/other || echo refused" 2>&1)
matches "read-only" "$out" "*Read-only*refused"
gone "$image"
inside --volatile=overlay "busybox rm /root/copy"
gone "$image"
is "what a volatile one removed" "$(inside "busybox sha256sum /root/copy")" \
	"$sum  /root/copy"
gone "$image"
clean_image "$image"
