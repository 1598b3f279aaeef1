#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Build the stable kernel for 32 bits (see configs/i386.config) from Debian's
# linux-source, inside the guest root, into build/i386; once. Debian has no such
# kernel of a series that floop is for.

. "$(dirname "$0")/machine.sh"

config=$PROJECT/machine/configs/i386.config
source=$BUILD/builds/stable
out=$BUILD/i386
tree=$out/linux
locked build-stable

stamp=$(sha256sum < "$config")
[ "$(cat "$out/stamp" 2> /dev/null)" = "$stamp" ] && exit 0

"$PROJECT/machine/linux-source.sh" stable

in_source()
{
	in_root nice -n 19 make -C "$source" O="$tree" ARCH=i386 \
		-j"$(nproc)" "$@"
}

configure()
{
	local line
	mkdir -p "$tree"
	in_source -s KCONFIG_ALLCONFIG="$config" allnoconfig
	# An option that the kernel refused would be missed much later.
	grep -E '^CONFIG.*=[ym]$' "$config" | while IFS= read -r line; do
		grep -qx "$line" "$tree/.config" ||
			printf 'not taken: %s\n' "$line"
	done
}

compile()
{
	in_source bzImage modules
}

collect()
{
	local release
	release=$(cat "$tree/include/config/kernel.release")
	in_source -s INSTALL_MOD_PATH="$out/modules" modules_install
	cp "$tree/.config" "$out/modules/lib/modules/$release/config"
	cp "$tree/arch/x86/boot/bzImage" "$out/"
	printf '%s\n' "$release" > "$out/release"
}

[ -d "$source" ] ||
	step "build for stable: unpack" unpack_source stable "$source"
step "i386 kernel: configure" configure
grep 'not taken' "$BUILD/logs/setup-i386-kernel-configure.log" >&2 || true
step "i386 kernel: compile (takes long)" compile
step "i386 kernel: collect" collect
printf '%s\n' "$stamp" > "$out/stamp"
