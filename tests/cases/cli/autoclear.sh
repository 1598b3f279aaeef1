#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: floop attach --autoclear keeps the device for its first user. The
#   driver detaches it when its last user closes it.
# machines: lts-side-by-side
# timeout: 240
. tests/lib/cli.sh

holders() {
	pgrep --runstates R,S,D -x floop-hold || true
}
nobody_holds() {
	[ -z "$(holders)" ]
}

image=$(mkimage 32M)
make_fs ext4 "$image"
dev=$("$FLOOP" attach --autoclear "$image")
is "status: autoclear" "$(status "$dev" autoclear)" true
sleep 1
bound "$dev" || fail "gone before its first user"
mount_at "$dev" "$WORK/mnt"
wait_until 20 nobody_holds
bound "$dev" || fail "gone though it is mounted"
unmount "$WORK/mnt"
wait_until 20 unbound "$dev"
echo "ok: gone with its last mount"

dev=$("$FLOOP" attach --autoclear "$image")
check "detach before the first user" "$FLOOP" detach "$dev"
wait_until 20 unbound "$dev"
wait_until 20 nobody_holds
