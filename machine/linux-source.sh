#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Usage: linux-source.sh lts|stable. Fetch Debian's package with the sources of
# that kernel of the guest root, and unpack its archive to
# build/src/KERNEL.tar.xz; again only when the guest root has another version.
# For checkpatch, docs/safety.md, and the kernels that are built here.

. "$(dirname "$0")/machine.sh"

kernel=${1:?lts or stable}
case $kernel in
lts | stable) ;;
*) die "no such kernel: $kernel" ;;
esac
locked "linux-source-$kernel"

archive=$BUILD/src/$kernel.tar.xz
release=$(cat "$ROOT/floop/$kernel")
# shellcheck disable=SC2016 # dpkg-query expands it
version=$(dpkg-query --admindir="$ROOT/var/lib/dpkg" -W -f '${Version}' \
	"linux-image-$release")
[ -s "$archive" ] &&
	[ "$(cat "$archive.version" 2> /dev/null)" = "$version" ] && exit 0

# Fetch the same version, or the newest of the series if Debian's archive no
# longer has that.
fetch()
{
	local folder=$BUILD/src/$kernel.fetch package
	package=linux-source-$(cut -d. -f 1,2 <<< "$release")
	as_root rm -rf "$folder"
	fetch_packages "$folder" "$package=$version" ||
		fetch_packages "$folder" "$package"
	dpkg-deb --fsys-tarfile "$folder"/linux-source-[0-9]*.deb |
		tar -x -O --wildcards '*/linux-source-*.tar.xz' > "$archive.new"
	mv "$archive.new" "$archive"
	printf '%s\n' "$version" > "$archive.version"
	as_root rm -rf "$folder"
}

step "sources of the $kernel kernel" fetch
