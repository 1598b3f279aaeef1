#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: md works on two devices: a mirror loses one of them, gets it back, and
#   is assembled again.
# modes: drop-in in-tree
# machines: stable-drop-in stable-in-tree
# init: systemd
# long: yes
. tests/lib/users.sh

first=$(mkimage 64M)
second=$(mkimage 64M)
a=$(losetup --find --show "$first")
b=$(losetup --find --show "$second")
ours "$a"
# halves - how many the mirror has
halves() {
	mdadm --detail --export /dev/md/floop | grep -c '_ROLE=[01]$'
}
undo() {
	! findmnt -n /mnt >/dev/null || umount /mnt
	mdadm -q --stop /dev/md/floop || true
	losetup --detach "$a" "$b" || true
}
later undo
check "create" mdadm -q --create /dev/md/floop --homehost=any --run \
	--metadata=1.2 --level=1 --raid-devices=2 --bitmap=internal \
	--assume-clean "$a" "$b"
udev_settle
mkfs.ext4 -q /dev/md/floop
mount /dev/md/floop /mnt
noise /mnt/first 8
check "one fails" mdadm -q /dev/md/floop --fail "$b"
check "and is removed" mdadm -q /dev/md/floop --remove "$b"
noise /mnt/second 8
sums=$(sum_of /mnt/first)$(sum_of /mnt/second)
array=$(realpath /dev/md/floop)
is "what floop status says of it" "$("$FLOOP" status --json "$a" |
	sed -n '/"stacked"/,/\]/p' | tr -d ' \n')" "\"stacked\":[{$(:
	)\"device\":\"${array##*/}\",\"kind\":\"md\",\"name\":\"raid1\"}],"
check "it comes back" mdadm -q /dev/md/floop --re-add "$b"
mdadm -q --wait /dev/md/floop || true
is "the mirror" "$(halves)" 2
umount /mnt
echo check >"/sys/block/${array##*/}/md/sync_action"
mdadm -q --wait /dev/md/floop || true
is "where its halves differ" \
	"$(cat "/sys/block/${array##*/}/md/mismatch_cnt")" 0
udev_settle
check "stop" mdadm -q --stop /dev/md/floop
check "detach" losetup --detach "$a" "$b"
gone "$first"
gone "$second"

a=$(losetup --find --show "$second")
b=$(losetup --find --show "$first")
udev_settle
check "assemble" mdadm -q --assemble /dev/md/floop "$a" "$b"
is "the mirror" "$(halves)" 2
udev_settle
check "no fault in it" e2fsck -fn /dev/md/floop
mount -o ro /dev/md/floop /mnt
is "what was written" "$(sum_of /mnt/first)$(sum_of /mnt/second)" "$sums"
umount /mnt
udev_settle
check "stop" mdadm -q --stop /dev/md/floop
check "detach" losetup --detach "$a" "$b"
later_commands=()
gone "$first"
gone "$second"
