#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: Where the file system has no files without a name, floop create leaves
#   nothing half-made either.
# kernels: stable
# modes: side-by-side
. tests/lib/cli.sh

mkdir "$WORK/small" "$WORK/fuse"
mount -t tmpfs -o size=16M none "$WORK/small"
later unmount "$WORK/small"
bindfs "$WORK/small" "$WORK/fuse"
later unmount "$WORK/fuse"
ends_with 1 "floop: $WORK/fuse/large: *no space left on device*" \
	create "$WORK/fuse/large" 64M
is "what is left" "$(ls -A "$WORK/small")" ""
check "what has room" "$FLOOP" create "$WORK/fuse/small" 8M
is "its size" "$(stat -c %s "$WORK/small/small")" $((8 << 20))
