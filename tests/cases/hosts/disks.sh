#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# shows: An image on each disk file system that Debian's kernels can write to
#   holds what its device was given. docs/hosts.md lists which are direct and
#   which are mapped, on disks of 512 and 4096 bytes.
# modes: side-by-side drop-in
# machines: stable-drop-in
# timeout: 900
# long: yes
# debug: no
# coverage: no
. tests/lib/hosts.sh

# on_disks HOST TYPE CONFIG-OPTION MOUNT-OPTIONS MKFS...
on_disks() {
	local host=$1 type=$2 bytes
	kernel_has "$host" "$type" "$3" || return 0
	for bytes in $sector_sizes; do
		ram_disk host "$bytes" 512
		if mounts_on_disk "$host" "$bytes" "$type" "$4" \
			"${@:5}" "$DISK"; then
			host "$host" "$bytes" remount "$type" "$4"
			unmount "$MNT"
		fi
		end_disk host
	done
}

noise "$WORK/noise" 2
on_disks ext2 ext2 EXT4_USE_FOR_EXT2 defaults mkfs.ext2 -q -F
on_disks ext3 ext3 EXT4_FS defaults mkfs.ext3 -q -F
on_disks ext4 ext4 EXT4_FS defaults mkfs.ext4 -q -F
on_disks "ext4, data=journal" ext4 EXT4_FS data=journal mkfs.ext4 -q -F
on_disks xfs xfs XFS_FS defaults mkfs.xfs -q -f
on_disks btrfs btrfs BTRFS_FS defaults mkfs.btrfs -q -f
on_disks f2fs f2fs F2FS_FS defaults mkfs.f2fs -q -f
on_disks vfat vfat VFAT_FS defaults mkfs.vfat
on_disks exfat exfat EXFAT_FS defaults mkfs.exfat -q
on_disks ntfs3 ntfs3 NTFS3_FS defaults mkntfs -q -f -F
on_disks ntfs ntfs NTFS_FS defaults mkntfs -q -f -F
on_disks udf udf UDF_FS defaults mkudffs
on_disks minix minix MINIX_FS defaults mkfs.minix -3
on_disks jfs jfs JFS_FS defaults mkfs.jfs -q
on_disks nilfs2 nilfs2 NILFS2_FS defaults mkfs.nilfs2 -q
on_disks reiserfs reiserfs REISERFS_FS defaults mkfs.reiserfs -q -ff
on_disks gfs2 gfs2 GFS2_FS defaults mkfs.gfs2 -q -O -p lock_nolock -j 1 -J 32
on_disks ocfs2 ocfs2 OCFS2_FS heartbeat=none \
	mkfs.ocfs2 -q -F -M local -N 1 -b 4096
on_disks bcachefs bcachefs BCACHEFS_FS defaults mkfs.bcachefs -q -f
end_hosts
