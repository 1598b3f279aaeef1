#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: mount -t floop knows its device below a btrfs, whose number is no
#   device's: it mounts the file system again with other options, and refuses to
#   mount the image twice.
# modes: side-by-side
# machines: stable-side-by-side
. tests/lib/cli.sh

image=$(mkimage 128M)
mkfs.btrfs -q "$image"
ln -s "$FLOOP" "$WORK/mount.floop"
mkdir "$WORK/mnt"
check "a mount" "$WORK/mount.floop" "$image" "$WORK/mnt"
later umount "$WORK/mnt"
is "its type" "$(stat -f -c %T "$WORK/mnt")" btrfs
check "a mount with other options" \
	"$WORK/mount.floop" "$image" "$WORK/mnt" -o remount,ro
refused "a file on it" "*Read-only*" touch "$WORK/mnt/file"
refused "a second mount" "*" "$WORK/mount.floop" "$image" "$WORK/mnt" -o ro
is "devices" "$(devices | wc -w)" 1
