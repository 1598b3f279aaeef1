#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: LVM works on two devices: a volume, a move from one to the other, and
#   activation on other devices.
# modes: drop-in in-tree
# machines: stable-drop-in stable-in-tree
# init: systemd
# long: yes
. tests/lib/users.sh

first=$(mkimage 128M)
second=$(mkimage 128M)
a=$(losetup --find --show "$first")
b=$(losetup --find --show "$second")
ours "$a"
undo() {
	vgremove -q -y floopvg || true
	losetup --detach "$a" "$b" || true
}
later undo
check "vgcreate" vgcreate -q -y floopvg "$a" "$b"
check "lvcreate" lvcreate -q -y -L 64M -n data floopvg "$a"
mkfs.ext4 -q /dev/floopvg/data
mount -o discard /dev/floopvg/data /mnt
noise /mnt/noise 16
sum=$(sum_of /mnt/noise)
check "pvmove, mounted" pvmove -q -i 1 "$a" "$b"
is "what was written" "$(drop_caches; sum_of /mnt/noise)" "$sum"
umount /mnt
udev_settle
check "lvextend" lvextend -q -y -L 96M floopvg/data
check "deactivate" vgchange -q -a n floopvg
udev_settle
check "detach" losetup --detach "$a" "$b"
gone "$first"
gone "$second"

# Found again on whichever devices they get.
b=$(losetup --find --show "$second")
a=$(losetup --find --show "$first")
udev_settle
check "activate" vgchange -q -a y floopvg
udev_settle
check "no fault in it" e2fsck -fn /dev/floopvg/data
mount -o ro /dev/floopvg/data /mnt
is "what was written" "$(sum_of /mnt/noise)" "$sum"
umount /mnt
udev_settle
check "vgremove" vgremove -q -y floopvg
udev_settle
check "detach" losetup --detach "$a" "$b"
later_commands=()
gone "$first"
gone "$second"
