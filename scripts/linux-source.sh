#!/bin/bash
# Usage: linux-source.sh lts|stable. Fetch Debian's package of that kernel's sources and unpack the
# archive that is in it to build/src/KERNEL.tar.xz; once. For checkpatch and the debug kernel.

. "$(dirname "$0")/lib.sh"

kernel=${1:?lts or stable}
case $kernel in
lts) suite=trixie ;;
stable) suite=trixie-backports ;;
*) die "no such kernel: $kernel" ;;
esac
locked "linux-source-$kernel"

archive=$BUILD/src/$kernel.tar.xz
[ -s "$archive" ] && exit 0

# The package's name has the version in it: ask for the meta-package and take what comes along.
fetch()
{
	as_root rm -rf "$BUILD/src/$kernel.fetch"
	mkdir -p "$BUILD/src/$kernel.fetch/partial"
	in_root sh -euc '
		mkdir -p /tmp/lists
		set -- -o Dir::State::lists=/tmp/lists -o Dir::Cache::archives="$1" \
			-o APT::Sandbox::User=root -t "$2"
		apt-get "$@" update
		apt-get "$@" install -y --no-install-recommends --download-only linux-source' \
		sh "$BUILD/src/$kernel.fetch" "$suite"
	dpkg-deb --fsys-tarfile "$BUILD/src/$kernel.fetch"/linux-source-[0-9]*.deb |
		tar -x -O --wildcards '*/linux-source-*.tar.xz' > "$archive.new"
	mv "$archive.new" "$archive"
	as_root rm -rf "$BUILD/src/$kernel.fetch"
}

step "sources of the $kernel kernel" fetch
