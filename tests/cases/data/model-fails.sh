#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: The model notices one bit of the image that changes behind the device's
#   back, so the tests that use it can fail.
# kernels: stable
# modes: side-by-side
# timeout: 400
. tests/lib/case.sh
programs loopdev devfsx pattern ackio

on_disk ext4
for how in direct buffered; do
	mkimage 4M "$MNT/image" >/dev/null
	dev=$(loop_attach "$how" "$MNT/image")
	devfsx -f "$MNT/image" -n 40 -s 5 "$dev"
	refused "a changed bit, $how" \
		"*1 bytes of*are wrong, the first at 0x200000*" devfsx -t \
		-f "$MNT/image" -n 40 -s 5 "$dev"
	loopdev detach "$dev"
done

dev=$(loop_attach direct "$MNT/image")
pattern write -q -d -s 3 "$dev" 4M
pattern check -q -d -s 3 "$dev" 4M
printf x | dd of="$MNT/image" bs=1 seek=77777 conv=notrunc,fsync status=none
refused "a changed byte in a pattern" "$dev: wrong at byte 77776" \
	pattern check -q -d -s 3 "$dev" 4M

ackio run "$dev" 500 1 "$WORK/state"
ackio check "$dev" "$WORK/state"
head -c 4M /dev/zero >"$WORK/lost"
dd if="$WORK/lost" of="$dev" bs=1M oflag=direct status=none
refused "an acknowledged write that is lost" "block *: version 0, must be *" \
	ackio check "$dev" "$WORK/state"
loopdev detach "$dev"
