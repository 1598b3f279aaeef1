#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# What the scripts that build a kernel share. To be sourced after machine.sh.
# Whoever sources it says which kernel: its sources in $source, its options in
# "${configs[@]}", its architecture in $arch; where to build it, $tree, and
# where what boots goes, $out.
# shellcheck disable=SC2154

# in_source ARGUMENT...: make in the sources, inside the guest root. It gives
# way to everything else on the machine.
in_source()
{
	in_root nice -n 19 make -C "$source" O="$tree" ARCH="$arch" \
		-j"$(nproc)" "$@"
}

# not_taken: the options that the kernel refused, one a line. They would be
# missed much later.
not_taken()
{
	grep -hE '^CONFIG.*=[ym]$' "${configs[@]}" |
		grep -vxFf "$tree/.config" | sed 's/^/not taken: /' || true
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

# build_kernel TITLE: configure it by the script's function of that name, build
# it (without make's -s, so that the progress shows) and put it in place.
build_kernel()
{
	mkdir -p "$tree"
	step "$1: configure" configure
	not_taken >&2
	step "$1: compile (takes long)" in_source bzImage modules
	step "$1: collect" collect
}
