#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Shared by the scripts that make the machine's systems: Debian in a folder, and
# a disk image of such a folder. To be sourced after machine.sh.
# shellcheck disable=SC2154 # the script says what is installed

mirror=http://deb.debian.org/debian
security=http://deb.debian.org/debian-security

# debian FOLDER [OPTION]...: install Debian there by mmdebstrap, with these
# further options of it: the suite $suite and its "${pockets[@]}" (updates,
# security, backports), with "${packages[@]}". Documentation and translations
# are left out.
debian()
{
	local folder=$1 pocket sources=("deb $mirror $suite main")
	shift
	for pocket in "${pockets[@]}"; do
		case $pocket in
		security) sources+=("deb $security $suite-security main") ;;
		*) sources+=("deb $mirror $suite-$pocket main") ;;
		esac
	done
	# mmdebstrap makes the folder itself only if it can see all of the path.
	as_root env DEBIAN_FRONTEND=noninteractive INITRD=No mmdebstrap \
		--variant=minbase --mode=root --skip=check/empty,check/qemu \
		--aptopt='Acquire::Languages "none"' \
		--aptopt='Apt::Install-Recommends "false"' \
		--dpkgopt='path-exclude=/usr/share/man/*' \
		--dpkgopt='path-exclude=/usr/share/doc/*' \
		--dpkgopt='path-exclude=/usr/share/locale/*' \
		--dpkgopt=force-unsafe-io \
		--include="$(IFS=,; printf '%s' "${packages[*]}")" \
		"$@" "$suite" "$folder" "${sources[@]}"
}

# disk_image FOLDER IMAGE LABEL SPARE [OPTION]...: make an ext4 image of the
# folder with at least SPARE MiB free, by mke2fs and these options. It is a
# sparse file.
disk_image()
{
	local folder=$1 image=$2 label=$3 spare=$4 size
	shift 4
	size=$(as_root du -sm --apparent-size "$folder" | cut -f 1)
	as_root rm -f "$image"
	as_root mke2fs -q -t ext4 -E lazy_itable_init=1 -L "$label" "$@" \
		-d "$folder" "$image" "$((size * 5 / 4 + spare))M"
}

# root_image FOLDER IMAGE: make such an image without a journal, which it
# doesn't need: every run writes to a throw-away layer above the image.
root_image()
{
	disk_image "$1" "$2" floop-root 1024 -O ^has_journal
}
