#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Make build/i386/root, a guest root of 32 bits, and build/i386.img, the same as
# a disk image to boot from. small-kernel.sh builds its kernel. Both are made
# again only when the recipe below changes.

. "$(dirname "$0")/machine.sh"
. "$PROJECT/machine/roots.sh"
locked i386-root

# Debian's last release that installs on i386
suite=bookworm
pockets=()
packages=(
	# the compiler for the cases' programs
	gcc libc6-dev make libaio-dev liburing-dev
	# the system
	kmod udev procps iproute2 util-linux util-linux-extra mount psmisc
	strace attr acl busybox-static bsdextrautils python3
	# file systems and block devices
	btrfs-progs dmsetup dosfstools e2fsprogs fdisk fio fuse2fs fuse3 bindfs
	gdisk parted xfsprogs
)
files=$PROJECT/machine/guest-root-files.sh
root=$BUILD/i386/root

bootstrap()
{
	as_root rm -rf "$root" "$BUILD/i386.img" "$BUILD/i386.stamp"
	mkdir -p "$BUILD/i386"
	debian "$root" --architectures=i386 \
		--customize-hook='ln -s ../bin/busybox "$1/usr/sbin/poweroff"' \
		--customize-hook="bash '$files' \"\$1\""
}

stamp=$(grep -v '^[[:space:]]*#' "$files" |
	stamp_of suite pockets packages mirror security debian bootstrap \
		disk_image root_image)
[ "$(cat "$BUILD/i386.stamp" 2> /dev/null)" = "$stamp" ] && exit 0

step "guest root of 32 bits: Debian $suite, tools (about a minute)" bootstrap
step "guest root of 32 bits: a disk image of it" \
	root_image "$root" "$BUILD/i386.img"
printf '%s\n' "$stamp" > "$BUILD/i386.stamp"
