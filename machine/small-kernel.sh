#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Usage: small-kernel.sh i386|built-in. Build a kernel that Debian doesn't have
# (see configs/NAME.config), as small as it can be, from Debian's linux-source
# of the stable one, inside the guest root, into build/NAME; again only when its
# options change. i386: Debian's own kernels for 32 bits are too old for floop.
# built-in: Debian's loop driver is a module.

. "$(dirname "$0")/machine.sh"
. "$PROJECT/machine/kernels.sh"

name=${1:?i386 or built-in}
case $name in
i386) arch=i386 ;;
built-in) arch=x86_64 ;;
*) die "$name: not i386 or built-in" ;;
esac
configs=("$PROJECT"/machine/configs/{small,"$name"}.config)
source=$BUILD/builds/stable
out=$BUILD/$name
tree=$out/linux
locked build-stable

stamp=$(cat "${configs[@]}" | sha256sum)
[ "$(cat "$out/stamp" 2> /dev/null)" = "$stamp" ] && exit 0

"$PROJECT/machine/linux-source.sh" stable

configure()
{
	cat "${configs[@]}" > "$tree/all.config"
	in_source -s KCONFIG_ALLCONFIG="$tree/all.config" allnoconfig
}

[ -d "$source" ] ||
	step "build for stable: unpack" unpack_source stable "$source"
build_kernel "$name kernel"
printf '%s\n' "$stamp" > "$out/stamp"
