#!/bin/bash
# Make build/i386/root, a guest root of 32 bits, and build/i386.img, the same as
# a disk image to boot from. Its kernel is i386-kernel.sh's. Made again only when
# this script changes.

. "$(dirname "$0")/machine.sh"
locked i386-root

# The last one that i386 is a system of its own in
suite=bookworm

packages=(
	# the compiler for the cases' programs
	gcc libc6-dev make libaio-dev liburing-dev
	# the system
	kmod udev procps iproute2 util-linux util-linux-extra mount psmisc strace attr acl
	busybox-static bsdextrautils python3
	# file systems and block devices
	btrfs-progs dmsetup dosfstools e2fsprogs fdisk fio fuse2fs fuse3 bindfs gdisk parted
	xfsprogs
)

stamp=$(cat "$0" "$PROJECT/machine/guest-root-files.sh" | sha256sum)
[ "$(cat "$BUILD/i386.stamp" 2> /dev/null)" = "$stamp" ] && exit 0

root=$BUILD/i386/root

bootstrap()
{
	as_root rm -rf "$root" "$BUILD/i386.img" "$BUILD/i386.stamp"
	mkdir -p "$BUILD/i386"
	as_root env DEBIAN_FRONTEND=noninteractive \
		mmdebstrap --architectures=i386 --variant=minbase --mode=root --skip=check/empty,check/qemu \
		--aptopt='Acquire::Languages "none"' \
		--aptopt='Apt::Install-Recommends "false"' \
		--dpkgopt='path-exclude=/usr/share/man/*' \
		--dpkgopt='path-exclude=/usr/share/doc/*' \
		--dpkgopt='path-exclude=/usr/share/locale/*' \
		--dpkgopt=force-unsafe-io \
		--include="$(IFS=,; printf '%s' "${packages[*]}")" \
		--customize-hook='ln -s ../bin/busybox "$1/usr/sbin/poweroff"' \
		--customize-hook="bash '$PROJECT/machine/guest-root-files.sh' \"\$1\"" \
		"$suite" "$root" "deb http://deb.debian.org/debian $suite main"
}

# As guest-root.sh does
image()
{
	local size
	size=$(as_root du -sm --apparent-size "$root" | cut -f 1)
	as_root mke2fs -q -t ext4 -O ^has_journal -E lazy_itable_init=1 -L floop-root \
		-d "$root" "$BUILD/i386.img" "$((size * 5 / 4 + 1024))M"
}

step "guest root of 32 bits: Debian $suite, tools (about a minute)" bootstrap
step "guest root of 32 bits: a disk image of it" image
printf '%s\n' "$stamp" > "$BUILD/i386.stamp"
