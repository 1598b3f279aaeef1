#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Usage: linux-source.sh lts|stable. Fetch Debian's package of the sources of
# the guest root's kernel of that name, and unpack the archive that is in it to
# build/src/KERNEL.tar.xz; again only when the guest root has another version.
# For checkpatch, docs/safety.md and the debug kernel.

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

# That very version, or, when the archive has moved on, the newest of the same
# series.
fetch()
{
	as_root rm -rf "$BUILD/src/$kernel.fetch"
	mkdir -p "$BUILD/src/$kernel.fetch/partial"
	# shellcheck disable=SC2016 # the inner shell expands them
	in_root sh -euc '
		package=$1 version=$2
		mkdir -p /tmp/lists
		set -- -o Dir::State::lists=/tmp/lists \
			-o Dir::Cache::archives="$3" -o APT::Sandbox::User=root
		apt-get "$@" update
		set -- "$@" install -y --no-install-recommends --download-only
		apt-get "$@" "$package=$version" || apt-get "$@" "$package"' \
		sh "linux-source-$(cut -d. -f 1,2 <<< "$release")" "$version" \
		"$BUILD/src/$kernel.fetch"
	dpkg-deb --fsys-tarfile \
		"$BUILD/src/$kernel.fetch"/linux-source-[0-9]*.deb |
		tar -x -O --wildcards '*/linux-source-*.tar.xz' > "$archive.new"
	mv "$archive.new" "$archive"
	printf '%s\n' "$version" > "$archive.version"
	as_root rm -rf "$BUILD/src/$kernel.fetch"
}

step "sources of the $kernel kernel" fetch
