#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: cryptsetup, veritysetup and systemd-cryptsetup work on a device, and on
#   a file that they attach themselves.
# modes: drop-in in-tree
# machines: stable-drop-in stable-in-tree
# init: systemd
# long: yes
. tests/lib/users.sh

echo -n "a pass phrase" >"$WORK/key"
chmod 600 "$WORK/key"
noise "$WORK/data" 8
sum=$(sum_of "$WORK/data")

# crypted WHAT - format it, write, close, open, read
crypted() {
	check "luksFormat $1" \
		cryptsetup luksFormat --batch-mode --pbkdf pbkdf2 \
		--pbkdf-force-iterations 1000 --key-file "$WORK/key" "$1"
	check "open" cryptsetup open --allow-discards --key-file "$WORK/key" \
		"$1" floop-crypt
	mkfs.ext4 -q /dev/mapper/floop-crypt
	mount -o discard /dev/mapper/floop-crypt /mnt
	cp "$WORK/data" /mnt/data
	umount /mnt
	check "close" cryptsetup close floop-crypt
	check "attach by systemd-cryptsetup" \
		systemd-cryptsetup attach floop-crypt "$1" "$WORK/key" luks
	ours "$(device_of "$image")"
	udev_settle
	check "no fault in it" e2fsck -fn /dev/mapper/floop-crypt
	mount /dev/mapper/floop-crypt /mnt
	is "what was written" "$(sum_of /mnt/data)" "$sum"
	umount /mnt
	udev_settle
	check "detach" systemd-cryptsetup detach floop-crypt
}

image=$(mkimage 64M)
device=$(losetup --find --show --sector-size 4096 "$image")
crypted "$device"
check "losetup --detach" losetup --detach "$device"
gone "$image"

image=$(mkimage 64M)
crypted "$image"
gone "$image"

hash=$(veritysetup format "$WORK/data" "$WORK/hashes" |
	sed -n 's/^Root hash:[[:space:]]*//p')
check "veritysetup open" veritysetup open "$WORK/data" floop-verity \
	"$WORK/hashes" "$hash"
is "what it reads" "$(sum_of /dev/mapper/floop-verity)" "$sum"
udev_settle
check "veritysetup close" veritysetup close floop-verity
gone "$WORK/data"
gone "$WORK/hashes"
