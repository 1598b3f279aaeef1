#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: Every refusal of floop names the file, the cause and the way out, and
#   has its own exit code.
# kernels: stable
# modes: side-by-side
# timeout: 240
. tests/lib/cli.sh

cd "$WORK"
mkdir folder
mkfifo pipe
: >empty
truncate -s 1M image other
truncate -s 100 small
ends_with 2 "error: *" attach
ends_with 2 "error: *'1000'*power of two*" attach --sector-size 1000 image
ends_with 6 "floop: missing: no such file; *" attach missing
ends_with 7 "floop: folder: is a directory; *" attach folder
ends_with 7 "floop: pipe: is a pipe; *" attach pipe
ends_with 7 "floop: /dev/null: is a character device; *" attach /dev/null
ends_with 7 "floop: empty: is empty; *" attach empty
ends_with 7 "floop: small: only 100 bytes would be visible*" attach small
ends_with 7 "floop: image: the offset 1048576 is past its end*" \
	attach --offset 1M image
ends_with 6 "floop: image: is not attached to any device; *" detach image
ends_with 6 "floop: /dev/${PREFIX}77777: no such device*" \
	status "/dev/${PREFIX}77777"
ends_with 7 "floop: image: is not a floop or loop device; *" status image
chmod 666 image
chmod 755 "$WORK"
dev=$("$FLOOP" attach image)
nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups)
status=0
out=$("${nobody[@]}" "$FLOOP" attach image 2>&1) || status=$?
is "no permission: exit code" "$status" 5
matches "no permission" "$out" \
	"floop: $CTL: cannot open: permission denied; run it as root (sudo)"
status=0
out=$("${nobody[@]}" "$FLOOP" detach "$dev" 2>&1) || status=$?
is "no permission to detach: exit code" "$status" 5
status=0
out=$("${nobody[@]}" "$FLOOP" detach --all 2>&1) || status=$?
is "no permission to detach all: exit code" "$status" 5
matches "no permission to detach all" "$out" \
	"floop: $dev: cannot open: permission denied; *"
check "status for everyone" "${nobody[@]}" "$FLOOP" status "$dev"
check "list for everyone" "${nobody[@]}" "$FLOOP" list

ends_with 4 "floop: image: is attached to $dev for writing already*" \
	attach image
is "reuse" "$("$FLOOP" attach --if-attached reuse image)" "$dev"
ends_with 4 "floop: $dev: $WORK/image is attached to it; *" \
	attach --number "${dev#/dev/"$PREFIX"}" other
number=999
at_number=$("$FLOOP" attach --number $number --loop-ref "a name" other)
is "the device that is asked for" "$at_number" "/dev/$PREFIX$number"
check "detach" "$FLOOP" detach "$at_number"
out=$("$FLOOP" attach --if-attached allow image 2>&1 >second)
matches "attached twice" "$out" \
	"floop: warning: image: is attached to $dev for writing already*"
truncate -s 5000 odd
out=$("$FLOOP" attach odd 2>&1 >/dev/null)
matches "size not a multiple" "$out" \
	"floop: warning: odd: the last 392 bytes can't be seen*"
check "detach" "$FLOOP" detach --all
