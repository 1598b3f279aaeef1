#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shows: When an attached image is cut short, reads and writes of the missing
#   part fail with EIO and never return data. The rest is right.
# modes: side-by-side
# machines: lts-side-by-side
# timeout: 400
. tests/lib/case.sh
programs loopdev pattern

on_disk ext4
ext4=$MNT
mkdir "$WORK/tmpfs"
mount_at tmpfs "$WORK/tmpfs" -t tmpfs

io() {
	local status=0
	pattern "$@" || status=$?
	[ "$status" = 0 ] || echo "status $status"
}

for folder in "$ext4" "$WORK/tmpfs"; do
	for how in direct buffered; do
		image=$folder/image
		mkimage 8M "$image" >/dev/null
		dev=$(loop_attach "$how" -b 512 "$image")
		pattern write -q -d -s 1 "$dev" 8M
		truncate -s $((3 * 1048576 + 100)) "$image"
		echo "$folder $how, is direct: $(dio "$dev")"
		is "what is left" "$(io check -q -d -b 64k -s 1 "$dev" 3M)" ""
		is "a read beyond" \
			"$(io check -d -b 4k -s 1 -o 5M "$dev" 4k)" \
			"EIO check 5242880
status 3"
		is "a read of the sector in which the image ends" \
			"$(io check -d -b 512 -s 1 -o 3M "$dev" 512)" \
			"EIO check 3145728
status 3"
		is "a read across the end" \
			"$(io check -d -b 1M -s 1 -o 2560k "$dev" 1M)" \
			"EIO check 2621440
status 3"
		is "a write beyond" \
			"$(io write -d -b 4k -s 2 -o 5M "$dev" 4k)" \
			"EIO write 5242880
status 3"
		is "a write across the end" \
			"$(io write -d -b 1M -s 1 -o 2560k "$dev" 1M)" \
			"EIO write 2621440
status 3"
		# -f: it would read the end of the device, which fails
		refused "zeroes across the end" "*BLKZEROOUT*" \
			blkdiscard -f -z -o 2560k -l 1M "$dev"
		refused "a discard across the end" \
			"*BLKDISCARD*Input/output error" \
			blkdiscard -f -o 2560k -l 1M "$dev"
		matches "a buffered write beyond" \
			"$(io write -b 64k -s 2 -o 6M "$dev" 64k)" "EIO *
status 3"
		is "the image is as short as it was made" \
			"$(stat -c %s "$image")" $((3 * 1048576 + 100))
		is "what is left" "$(io check -q -d -b 64k -s 1 "$dev" 2560k)" \
			""
		is "a write to what is left" \
			"$(io write -q -d -b 64k -s 1 "$dev" 3M)" ""

		truncate -s 8M "$image"
		is "grown again: what was left" \
			"$(io check -q -d -b 64k -s 1 "$dev" 3M)" ""
		cmp -n 5242368 -i 3146240:0 "$dev" /dev/zero
		is "grown again: writes" \
			"$(io write -q -d -b 64k -s 4 -o 3M "$dev" 5M)" ""
		is "grown again: the image" \
			"$(io check -q -b 64k -s 4 -o 3M "$image" 5M)" ""
		truncate -s 3M "$image"
		loopdev capacity "$dev"
		is "the device is as short as its image, when told" \
			"$(sectors "$dev")" 6144
		loopdev detach "$dev"
	done
done
