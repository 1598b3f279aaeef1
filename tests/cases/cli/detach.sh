#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: floop detach --all detaches every device, of one driver or of all, and
#   reports each.
# machines: lts-drop-in
# timeout: 240
. tests/lib/cli.sh

for n in 1 2 3 4 5; do
	"$FLOOP" attach "$(mkimage 1M "$WORK/$n")" >/dev/null
done
in_use=$("$FLOOP" list --json | fields device | sed -n 3p)
exec 5<"$in_use"
out=$("$FLOOP" detach --all --dry-run --json)
is "--dry-run names them all" "$(grep -c would-detach <<<"$out")" 5
is "and detaches none" "$("$FLOOP" list | wc -l)" 6
if [ "$PREFIX" = floop ]; then
	check "--driver loop means other devices" "$FLOOP" \
		detach --all --driver loop
else
	check "--driver floop means other devices" "$FLOOP" \
		detach --all --driver floop
fi
is "all are there still" "$("$FLOOP" list | wc -l)" 6

udev_settle
out=$("$FLOOP" detach --all --json)
is "detached at once" "$(grep -c '"detached"' <<<"$out")" 4
is "and later, one in use" "$(grep -c '"pending"' <<<"$out")" 1
is "it alone is there" "$(devices)" "$in_use"
is "with autoclear" "$(status "$in_use" autoclear)" true
exec 5<&-
wait_until 10 unbound "$in_use"
check "--all of nothing" "$FLOOP" detach --all

image=$(mkimage 1M)
for n in 1 2 3; do
	"$FLOOP" attach --read-only "$image" >/dev/null
done
ln "$image" "$WORK/another-name"
udev_settle
out=$("$FLOOP" detach --json "$WORK/another-name")
is "every device of an image, by another name" \
	"$(grep -c '"detached"' <<<"$out")" 3
dev=$("$FLOOP" attach "$image")
rm "$image"
is "status: deleted" "$(status "$dev" deleted)" true
udev_settle
check "detach by the name of a deleted image" "$FLOOP" detach "$image"
is "nothing is left" "$("$FLOOP" list)" ""
