#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Build the stable kernel for 32 bits (see configs/i386.config) from Debian's
# linux-source, inside the guest root, into build/i386; again only when its
# options change. Debian's own kernels for 32 bits are too old for floop.

. "$(dirname "$0")/machine.sh"
. "$PROJECT/machine/kernels.sh"

configs=("$PROJECT/machine/configs/i386.config")
source=$BUILD/builds/stable
out=$BUILD/i386
tree=$out/linux
arch=i386
locked build-stable

stamp=$(cat "${configs[@]}" | sha256sum)
[ "$(cat "$out/stamp" 2> /dev/null)" = "$stamp" ] && exit 0

"$PROJECT/machine/linux-source.sh" stable

configure()
{
	in_source -s KCONFIG_ALLCONFIG="${configs[0]}" allnoconfig
}

[ -d "$source" ] ||
	step "build for stable: unpack" unpack_source stable "$source"
build_kernel "i386 kernel"
printf '%s\n' "$stamp" > "$out/stamp"
