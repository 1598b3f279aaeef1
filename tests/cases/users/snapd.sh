#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: snapd installs a snap from a file, mounts it, and detaches it when the
#   snap is removed.
# modes: drop-in in-tree
# machines: stable-drop-in stable-in-tree
# init: systemd
# long: yes
. tests/lib/users.sh

# A base, for it needs no other snap: there is no store here.
mkdir -p "$WORK/snap/meta"
cat >"$WORK/snap/meta/snap.yaml" <<-'END'
	name: floop-base
	version: '1'
	type: base
	summary: a base with nothing to build on
	description: for a test
	confinement: strict
END
noise "$WORK/snap/noise" 4
mksquashfs "$WORK/snap" "$WORK/floop-base.snap" -comp xz -quiet -no-progress

# It would ask the store for its catalogue, and try again for a minute.
mkdir -p /var/cache/snapd
touch /var/cache/snapd/names
later systemctl stop snapd.service snapd.socket
systemctl start snapd.socket
check "seeded" snap wait system seed.loaded
check "no store" snap set system store.access=offline
check "install" snap install --dangerous "$WORK/floop-base.snap"
later snap remove --purge floop-base
file=/var/lib/snapd/snaps/floop-base_x1.snap
matches "how it is mounted" \
	"$(findmnt -n -o SOURCE,FSTYPE /snap/floop-base/x1)" \
	"/dev/loop* squashfs"
device=$(device_of $file)
ours "$device"
is "read-only" "$(attr "$device" ro)" 1
is "what is in it" "$(sum_of /snap/floop-base/x1/noise)" \
	"$(sum_of "$WORK/snap/noise")"
check "remove" snap remove --purge floop-base
later_commands=("${later_commands[@]:0:2}")
gone $file
