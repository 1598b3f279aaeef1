#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: floop detach leaves alone what was attached to the device after floop
#   looked, and says that its own image is gone.
# machines: stable-side-by-side
. tests/lib/cli.sh
programs loopdev holdopen

held() {
	grep -qx held "$WORK/held"
}

dev=$(attach "$(mkimage 4M "$WORK/old")")
other=$(mkimage 8M "$WORK/new")
mkfifo "$WORK/go"
holdopen "$dev" "$FLOOP" detach "$dev" <"$WORK/go" 2>"$WORK/held" &
floop=$!
exec 8>"$WORK/go"
wait_until 20 held
detach "$dev"
is "another image on the same device" "$(attach --device "$dev" "$other")" \
	"$dev"
exec 8>&-
status=0
wait $floop || status=$?
is "exit status of detach" "$status" 6
matches "what it says" "$(<"$WORK/held")" \
	"*floop: $dev: nothing is attached to it*"
is "what is attached" "$(attr "$dev" loop/backing_file)" "$other"
detach "$dev"
