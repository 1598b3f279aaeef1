#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Make what the tests of the packages install them in, without the network: for
# Debian 13, DKMS and what it needs, as packages, for a layer above the guest
# root (build/packages/trixie/); for Debian 12 a root with DKMS and its
# backports' kernel headers (build/packages/bookworm/).

. "$(dirname "$0")/machine.sh"
. "$PROJECT/machine/roots.sh"
"$PROJECT/machine/guest-root.sh"
locked packages-roots

debs=$BUILD/packages/trixie
old=$BUILD/packages/bookworm
suite=bookworm
pockets=(updates security backports)
packages=(dkms gcc kmod libc6-dev make openssl udev xz-utils)

bookworm()
{
	as_root rm -rf "$old.new"
	debian "$old.new" --customize-hook='
		chroot "$1" apt-get install -y -t bookworm-backports \
			linux-headers-amd64
		rm -rf "$1"/var/cache/apt/archives/*.deb'
}

# is_made DISTRIBUTION STAMP
is_made()
{
	[ "$(cat "$BUILD/packages/$1.stamp" 2> /dev/null)" = "$2" ]
}

mkdir -p "$BUILD/packages"
stamp=$(stamp_of mirror fetch_packages < "$ROOT/floop/stamp")
if ! is_made trixie "$stamp"; then
	step "packages' roots: DKMS for Debian 13" \
		fetch_packages "$debs" dkms openssl
	printf '%s\n' "$stamp" > "$BUILD/packages/trixie.stamp"
fi

stamp=$(stamp_of suite pockets packages mirror security debian bookworm \
	< "$ROOT/floop/stamp")
if ! is_made bookworm "$stamp"; then
	step "packages' roots: Debian 12 (a minute)" bookworm
	as_root rm -rf "$old"
	as_root mv "$old.new" "$old"
	printf '%s\n' "$stamp" > "$BUILD/packages/bookworm.stamp"
fi
