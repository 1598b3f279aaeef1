#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: What /etc/flooptab names is attached at boot, after the image's file
#   system and before what is mounted from the device. A missing image stops
#   the boot only without nofail. The shutdown leaves the file systems clean.
#   mount -t floop works by hand and from fstab.
# modes: side-by-side drop-in
# machines: stable-side-by-side
# init: systemd
# timeout: 400
# long: yes
. tests/lib/users.sh

disk=${DISKS%% *}
host=/srv/host
state() {
	systemctl show --property=ActiveState --value "$1"
}

undo() {
	umount -q /srv/data /srv/helper /srv/part /srv/hand || true
	systemctl stop 'floop@*.service' || true
	umount -q "$host" || true
	: >/etc/fstab
	rm -f /etc/flooptab
	systemctl daemon-reload
}
later undo

# clean FILE - that image's file system was unmounted
clean() {
	is "what ${1##*/} has to replay" "$(dumpe2fs -h "$1" 2>/dev/null |
		grep -c needs_recovery)" 0
	check "${1##*/} has no fault" e2fsck -fn "$1"
}

# by_hand - mount -t floop on the command line
by_hand() {
	local said device
	mount -t floop -o ro,noatime $host/hand.img /srv/hand
	device=$(findmnt -n -o SOURCE /srv/hand)
	matches "mounted" "$device" "/dev/*loop[0-9]*"
	matches "its options" "$(findmnt -n -o OPTIONS /srv/hand)" \
		"ro,noatime*"
	is "read-only" "$(attr "$device" ro)" 1
	said=$(mount -t floop -o ro $host/hand.img /srv/hand 2>&1) && fail twice
	matches "mounted once" "$said" "*is mounted on /srv/hand already*"
	umount /srv/hand
	wait_until 20 unattached hand.img
	mount -t floop.ext4 -o direct-io=off $host/hand.img /srv/hand
	device=$(findmnt -n -o SOURCE /srv/hand)
	is "direct I/O, turned off" "$(attr "$device" loop/dio)" 0
	umount /srv/hand
	wait_until 20 unattached hand.img
	# A failed mount leaves nothing attached.
	mkimage 16M $host/empty.img >/dev/null
	said=$(mount -t floop.ext4 $host/empty.img /srv/hand 2>&1) &&
		fail "an empty image was mounted"
	matches "no file system" "$said" "*wrong fs type*"
	wait_until 20 unattached empty.img
	said=$(mount -t floop $host/none.img /srv/hand 2>&1) &&
		fail "a missing image was mounted"
	matches "no image" "$said" "*$host/none.img*no such file*"
}

# unattached NAME - no device has an image of that name
unattached() {
	! "$FLOOP" list | grep -q "$1"
}

case $BOOT in
1)
	mkfs.xfs -q -f "$disk"
	mkdir -p $host /srv/data /srv/helper /srv/part /srv/hand
	mount "$disk" $host
	for name in data helper later hand; do
		mkfs.ext4 -q -F "$(mkimage 32M "$host/$name.img")"
	done
	mkimage 48M "$host/a part.img" >/dev/null
	echo start=1MiB, size=32MiB | sfdisk -q "$host/a part.img"
	mkfs.ext4 -q -F -E offset=$((1 << 20)) "$host/a part.img" 32M
	cat >/etc/fstab <<-END
		UUID=$(blkid -s UUID -o value "$disk") $host xfs defaults 0 2
		/dev/floop/data /srv/data ext4 defaults 0 2
		/dev/floop/my-part-part1 /srv/part ext4 defaults 0 2
		$host/helper.img /srv/helper floop defaults 0 0
	END
	cat >/etc/flooptab <<-END
		# name image options
		data $host/data.img
		my-part $host/a\\040part.img partscan
		missing $host/none.img nofail
		later $host/later.img noauto
		wrong $host/hand.img nofail,luks
		no/name $host/hand.img
	END
	reboot_machine
	;;
2)
	is "data" "$(state floop@data.service)" active
	is "my-part" "$(state floop@my-part.service)" active
	is "the boot" "$(state local-fs.target)" active
	is "mounted by its name" "$(findmnt -n -o SOURCE /srv/data)" \
		"$(realpath /dev/floop/data)"
	is "its partition" "$(findmnt -n -o SOURCE /srv/part)" \
		"$(realpath /dev/floop/my-part-part1)"
	ours "$(realpath /dev/floop/data)"
	is "missing" "$(state floop@missing.service)" failed
	matches "and why" "$(journalctl -b -u floop@missing.service)" \
		"*$host/none.img*no such file*"
	is "wrong" "$(state floop@wrong.service)" failed
	matches "and why" "$(journalctl -b -u floop@wrong.service)" \
		"*/etc/flooptab: line 6, wrong: unknown option 'luks'*"
	matches "a bad line" "$(journalctl -b -g flooptab:7)" \
		"*floop-generator: /etc/flooptab:7: 'no/name' is not a name*"
	is "later" "$(state floop@later.service)" inactive
	check "attach it now" systemctl start floop@later.service
	matches "its link" "$(realpath /dev/floop/later)" "/dev/*loop[0-9]*"
	check "detach it" systemctl stop floop@later.service
	wait_until 20 unattached later.img
	# udev hears of it after that
	wait_until 20 test ! -e /dev/floop/later
	matches "from fstab" "$(findmnt -n -o SOURCE /srv/helper)" \
		"/dev/*loop[0-9]*"
	by_hand
	for name in data part helper; do
		noise /srv/$name/noise 4
		sum_of /srv/$name/noise >"$WORK/sum-$name"
	done
	reboot_machine
	;;
3)
	for name in data part helper; do
		is "what was written" "$(sum_of /srv/$name/noise)" \
			"$(<"$WORK/sum-$name")"
	done
	clean_boot "${disk#/dev/}"
	umount /srv/data /srv/part /srv/helper
	wait_until 20 unattached helper.img
	systemctl stop floop@data.service floop@my-part.service
	wait_until 20 unattached .img
	clean $host/data.img
	clean $host/helper.img
	;;
esac
