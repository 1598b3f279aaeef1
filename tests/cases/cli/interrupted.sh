#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: An attach or set that is interrupted while it waits leaves everything
#   as it was: nothing is attached that nobody was told of, no device stays that
#   was made for it, and settings are those of before. So does one that fails.
# modes: side-by-side
# machines: stable-side-by-side
. tests/lib/cli.sh
. tests/lib/guard.sh
programs loopdev pattern

# interrupted WHEN ARG... - run floop, and interrupt it once WHEN holds
interrupted() {
	local when=$1 floop status=0
	shift
	"$FLOOP" "$@" >"$WORK/out" 2>&1 &
	floop=$!
	wait_until 20 "$when"
	# On a busy host it may have waited long enough by now.
	kill -INT $floop || true
	wait $floop || status=$?
	echo "floop $1: exit status $status: $(<"$WORK/out")"
	[ "$status" -ne 0 ] || fail "floop $1 succeeded"
	is "floop $1: what it prints" "$(grep -c ^/dev/ "$WORK/out")" 0
}

# The command waits 2 s for an image to be mapped: no processes here
anything_attached() {
	compgen -G "/sys/block/$PREFIX*/loop/backing_file" >/dev/null
}

# looked_at - something is attached, and has been opened
looked_at() {
	local file device
	file=$(compgen -G "/sys/block/$PREFIX*/loop/backing_file") || return 1
	device=${file#/sys/block/}
	(exec 8<"/dev/${device%%/*}" && sleep 0.5) &
}

is_gone() {
	[ ! -e "/sys/block/${PREFIX}9" ] || fail "the made device is still there"
}

larger_sectors() {
	[ "$(attr "$dev" queue/logical_block_size)" = 4096 ]
}

begin_fs ext4
written "$MNT/image" 4M 1
exec 9<>"$MNT/image"
# One that only probes the device, as udev does, isn't in the way.
interrupted looked_at attach --mapping on "$MNT/image"
is "what is attached" "$(devices)" ""
# udev looks at what has come and gone; it is not to make the device once more.
for _ in {1..4}; do
	interrupted anything_attached \
		attach --number 9 --mapping on "$MNT/image"
	is "what is attached" "$(devices)" ""
	is_gone
done
refused "what can't be mapped" "*can't be mapped*" \
	"$FLOOP" attach --number 9 --mapping on "$(mkimage 4M)"
is_gone

dev=$("$FLOOP" attach --mapping off --sector-size 512 "$MNT/image")
udev_settle
(exec 8<"$dev" && sleep 0.5) &
interrupted larger_sectors set "$dev" --sector-size 4096 --mapping on
is "the sector size" "$(attr "$dev" queue/logical_block_size)" 512
is "mapping" "$(attr "$dev" loop/mapping)" 0
exec 9<&-
detach "$dev"
end_fs
