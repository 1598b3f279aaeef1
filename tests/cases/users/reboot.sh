#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: An image in fstab is mounted at boot. A shutdown detaches it, and one
#   that was attached by hand, and leaves clean both file systems that they are
#   on.
# modes: drop-in in-tree
# machines: lts-drop-in lts-in-tree
# init: systemd
# timeout: 300
# long: yes
. tests/lib/users.sh

disk=${DISKS%% *}
host=/srv/host
image=$host/disk.img
other=$host/other.img
root_image=/var/lib/floop.img

undo() {
	umount -q /srv/image /srv/other /srv/root "$host" || true
	: >/etc/fstab
	systemctl daemon-reload
	rm -f "$root_image"
}
later undo

case $BOOT in
1)
	mkfs.xfs -q -f "$disk"
	mkdir -p $host /srv/image /srv/other /srv/root
	cat >/etc/fstab <<-END
		UUID=$(blkid -s UUID -o value "$disk") $host xfs defaults 0 2
		$image /srv/image ext4 loop 0 0
	END
	systemctl daemon-reload
	mount $host
	mkfs.ext4 -q -F "$(mkimage 64M $image)"
	mkfs.ext4 -q -F "$(mkimage 64M $other)"
	mkfs.ext4 -q -F "$(mkimage 64M $root_image)"
	mount /srv/image
	mount "$(losetup --find --show $other)" /srv/other
	mount -o loop $root_image /srv/root
	for where in image other root; do
		noise /srv/$where/noise 8
		sum_of /srv/$where/noise >"$WORK/sum-$where"
		echo "mounted on /srv/$where:" \
			"$(findmnt -n -o SOURCE /srv/$where)"
	done
	losetup --list
	reboot_machine
	;;
2)
	device=$(findmnt -n -o SOURCE /srv/image)
	matches "mounted at boot" "$device" "/dev/loop[0-9]*"
	ours "$device"
	clean_boot "${disk#/dev/}"
	is "what was written" "$(sum_of /srv/image/noise)" \
		"$(<"$WORK/sum-image")"
	umount /srv/image
	gone $image
	for file in $other $root_image; do
		check "${file##*/} has no fault" e2fsck -fn "$file"
		is "and had been unmounted" "$(dumpe2fs -h "$file" 2>/dev/null |
			sed -n 's/^Filesystem state: *//p')" clean
		is "nothing to replay" "$(dumpe2fs -h "$file" 2>/dev/null |
			grep -c needs_recovery)" 0
	done
	mount -o loop,ro $other /srv/other
	is "what was written there" "$(sum_of /srv/other/noise)" \
		"$(<"$WORK/sum-other")"
	umount /srv/other
	mount -o loop,ro $root_image /srv/root
	is "what was written on the root" "$(sum_of /srv/root/noise)" \
		"$(<"$WORK/sum-root")"
	umount /srv/root
	umount $host
	check "the host's file system has no fault" xfs_repair -n "$disk"
	;;
esac
