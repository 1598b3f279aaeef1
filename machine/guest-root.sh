#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Make build/root, the guest's Debian root folder, with both kernels and their
# headers in it, and build/root.img, the same as a disk image to boot from.
# Kernels come by meta-package: the one of the stable suite ("lts") first, then
# the one of its backports ("stable"). Both are made again only when the recipe
# below changes, not when Debian's archive does.

. "$(dirname "$0")/machine.sh"
. "$PROJECT/machine/roots.sh"
locked guest-root

suite=trixie
pockets=(updates security backports)
packages=(
	linux-image-amd64 linux-headers-amd64
	# the compiler for the module, and the programs of `make check`
	gcc libc6-dev make sparse perl-base xz-utils bc bison flex libelf-dev
	libssl-dev libelf1t64
	# the system
	kmod udev procps iproute2 util-linux util-linux-extra mount psmisc
	strace attr acl busybox-static bsdextrautils
	python3 python3-pytest
	# file systems and block devices
	btrfs-progs dmsetup dosfstools e2fsprogs f2fs-tools fdisk fio fuse2fs
	fuse3 bindfs gdisk parted
	xfsprogs libaio-dev liburing-dev nbd-client
	nfs-kernel-server
	# programs that make the images and hosts of hosts/ and images/contents
	bcache-tools cryptsetup-bin diod erofs-utils exfatprogs genisoimage
	genromfs gfs2-utils jfsutils ksmbd-tools libfuse3-dev lvm2 mdadm
	nilfs-tools ntfs-3g
	ocfs2-tools reiserfsprogs squashfs-tools udftools xorriso
)
files=$PROJECT/machine/guest-root-files.sh
new=$BUILD/root.new

bootstrap()
{
	as_root rm -rf "$new" "$BUILD/root.img.new"
	debian "$new" \
		--customize-hook='
			mkdir "$1/floop"
			ls "$1/lib/modules" > "$1/floop/lts"' \
		--customize-hook="
			chroot \"\$1\" env INITRD=No apt-get install -y \
				-t $suite-backports \
				linux-image-amd64 linux-headers-amd64" \
		--customize-hook='
			cd "$1/floop"
			ls ../lib/modules | grep -vxFf lts > stable ||
				cp lts stable' \
		--customize-hook="bash '$files' \"\$1\""
}

stamp=$(grep -v '^[[:space:]]*#' "$files" |
	stamp_of suite pockets packages mirror security debian bootstrap \
		disk_image root_image)
[ "$(cat "$ROOT/floop/stamp" 2> /dev/null)" = "$stamp" ] &&
	[ -s "$BUILD/root.img" ] && exit 0

step "guest root: Debian $suite, two kernels, tools (a minute)" bootstrap
step "guest root: a disk image of it" root_image "$new" "$BUILD/root.img.new"
printf '%s\n' "$stamp" | as_root tee "$new/floop/stamp" > /dev/null
as_root rm -rf "$ROOT"
as_root mv "$BUILD/root.img.new" "$BUILD/root.img"
as_root mv "$new" "$ROOT"
