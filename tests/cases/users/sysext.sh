#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: systemd-sysext lays an image over /usr and takes it away again. A unit
#   runs with RootImage=.
# modes: drop-in in-tree
# machines: stable-drop-in stable-in-tree
# init: systemd
# long: yes
. tests/lib/users.sh

release=$WORK/extension/usr/lib/extension-release.d
mkdir -p "$release"
echo ID=_any >"$release/extension-release.floopext"
noise "$WORK/extension/usr/lib/floopext" 4
mkdir -p /run/extensions
image=/run/extensions/floopext.raw
later rm -f "$image"
mksquashfs "$WORK/extension" "$WORK/floopext.raw" -comp zstd -quiet -no-progress
# On the disk: it is attached from there.
ln -s "$WORK/floopext.raw" "$image"

later systemd-sysext --no-pager unmerge
check "merge" systemd-sysext --no-pager merge
ours "$(device_of "$WORK/floopext.raw")"
is "a file of the image" "$(sum_of /usr/lib/floopext)" \
	"$(sum_of "$WORK/extension/usr/lib/floopext")"
check "unmerge" systemd-sysext --no-pager unmerge
[ ! -e /usr/lib/floopext ] || fail "/usr/lib/floopext is still there"
# If it has reloaded meanwhile, it has files of the merged /usr open: hwdb.bin,
# and the lists of modules. They keep the image mounted.
udevadm control --reload
gone "$WORK/floopext.raw"

tree "$WORK/system"
image=$(os_image "$WORK/system")
out=$(systemd-run --quiet --pipe --wait --collect -p RootImage="$image" \
	-p MountAPIVFS=yes /bin/busybox sha256sum /usr/lib/noise)
is "RootImage=" "${out%% *}" "$(sum_of "$WORK/system/usr/lib/noise")"
gone "$image"
