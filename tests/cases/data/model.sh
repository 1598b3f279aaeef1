#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: Random operations on a device agree with a model byte for byte, with
#   the image direct and buffered, at every sector size.
# modes: side-by-side
# machines: stable-side-by-side
# timeout: 400
. tests/lib/case.sh
programs loopdev devfsx
seed

on_disk ext4
for size in 512 1024 2048 4096 8192 65536; do
	for how in direct buffered; do
		mkimage $((8 << 20)) "$MNT/image" >/dev/null
		if [ "$size" -gt 4096 ] && [ "$KERNEL" = lts ]; then
			refused "sectors of $size on this kernel" \
				"*Invalid argument*" loopdev attach -b "$size" \
				"$MNT/image"
			continue
		fi
		dev=$(loop_attach "$how" -b "$size" "$MNT/image")
		is "sectors of $dev" "$(blockdev --getss "$dev")" "$size"
		is "$dev direct" "$(dio "$dev")" \
			"$([ "$how" = direct ] && echo 1 || echo 0)"
		devfsx -f "$MNT/image" -n "$(more 150)" -j 2 -s "$SEED" "$dev"
		loopdev detach "$dev"
		SEED=$((SEED + 1))
	done
done
