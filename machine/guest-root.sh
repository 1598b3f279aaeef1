#!/bin/bash
# Make build/root, the guest's Debian root folder, with both kernels and their headers in it, and
# build/root.img, the same as a disk image to boot from. Kernels come by meta-package: the one of
# the stable suite ("lts") first, then the one of its backports ("stable"). Made again only when
# this script changes; whatever was made keeps working when the archive moves on.

. "$(dirname "$0")/machine.sh"
locked guest-root

suite=trixie
mirror=http://deb.debian.org/debian
security=http://deb.debian.org/debian-security

packages=(
	linux-image-amd64 linux-headers-amd64
	# the compiler for the module, and what `make check` runs
	gcc libc6-dev make sparse perl-base xz-utils bc bison flex libelf-dev libssl-dev libelf1t64
	# the system
	kmod udev procps iproute2 util-linux util-linux-extra mount psmisc strace attr acl busybox-static bsdextrautils
	python3 python3-pytest
	# file systems and block devices
	btrfs-progs dmsetup dosfstools e2fsprogs f2fs-tools fdisk fio fuse2fs fuse3 bindfs gdisk parted
	xfsprogs libaio-dev liburing-dev nbd-client
	nfs-kernel-server
	# what the cases in hosts/, and images/contents.sh, make
	bcache-tools cryptsetup-bin diod erofs-utils exfatprogs genisoimage genromfs
	gfs2-utils jfsutils ksmbd-tools libfuse3-dev lvm2 mdadm nilfs-tools ntfs-3g
	ocfs2-tools reiserfsprogs squashfs-tools udftools xorriso
)

stamp=$(cat "$0" "$PROJECT/machine/guest-root-files.sh" | sha256sum)
[ "$(cat "$ROOT/floop/stamp" 2> /dev/null)" = "$stamp" ] && [ -s "$BUILD/root.img" ] && exit 0

new=$BUILD/root.new
export INITRD=No DEBIAN_FRONTEND=noninteractive

bootstrap()
{
	as_root rm -rf "$new" "$BUILD/root.img.new"
	# mmdebstrap makes the folder itself only if it can see all of the path.
	as_root env INITRD=No mmdebstrap --variant=minbase --mode=root --skip=check/empty \
		--aptopt='Acquire::Languages "none"' \
		--aptopt='Apt::Install-Recommends "false"' \
		--dpkgopt='path-exclude=/usr/share/man/*' \
		--dpkgopt='path-exclude=/usr/share/doc/*' \
		--dpkgopt='path-exclude=/usr/share/locale/*' \
		--dpkgopt=force-unsafe-io \
		--include="$(IFS=,; printf '%s' "${packages[*]}")" \
		--customize-hook='mkdir "$1/floop"; ls "$1/lib/modules" > "$1/floop/lts"' \
		--customize-hook="chroot \"\$1\" env INITRD=No apt-get install -y \
			-t $suite-backports linux-image-amd64 linux-headers-amd64" \
		--customize-hook='ls "$1/lib/modules" | grep -vxFf "$1/floop/lts" > "$1/floop/stable" ||
			cp "$1/floop/lts" "$1/floop/stable"' \
		--customize-hook="bash '$PROJECT/machine/guest-root-files.sh' \"\$1\"" \
		"$suite" "$new" \
		"deb $mirror $suite main" \
		"deb $mirror $suite-updates main" \
		"deb $security $suite-security main" \
		"deb $mirror $suite-backports main"
}

# A file system with 1 GiB to spare (it is a sparse file), no journal: every run writes to a
# throw-away layer above it.
image()
{
	local size
	size=$(as_root du -sm --apparent-size "$new" | cut -f 1)
	as_root mke2fs -q -t ext4 -O ^has_journal -E lazy_itable_init=1 -L floop-root \
		-d "$new" "$BUILD/root.img.new" "$((size * 5 / 4 + 1024))M"
}

step "guest root: Debian $suite, two kernels, tools (about a minute)" bootstrap
step "guest root: a disk image of it" image
printf '%s\n' "$stamp" | as_root tee "$new/floop/stamp" > /dev/null
as_root rm -rf "$ROOT"
as_root mv "$BUILD/root.img.new" "$BUILD/root.img"
as_root mv "$new" "$ROOT"
