#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: Where floop has the loop driver's place, floop attach uses it there and
#   loads no other driver.
# modes: drop-in
# machines: lts-drop-in
. tests/lib/cli.sh

mkdir "$WORK/path"
printf '#!/bin/sh\necho "$@" >>"%s"\n' "$WORK/asked" >"$WORK/path/modprobe"
chmod +x "$WORK/path/modprobe"
: >"$WORK/asked"
dev=$(PATH=$WORK/path:$PATH "$FLOOP" attach "$(mkimage 4M)")
matches "the device" "$dev" "/dev/loop*"
is "modules that were asked for" "$(cat "$WORK/asked")" ""
check "detach" "$FLOOP" detach "$dev"
