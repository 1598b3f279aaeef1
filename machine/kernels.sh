#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Shared by the scripts that build a kernel. To be sourced after machine.sh. The
# script sets $source (the kernel's sources), "${configs[@]}" (its options),
# $arch (its architecture), $tree (where to build it) and $out (where to put the
# result), and defines configure().
# shellcheck disable=SC2154

# in_source ARGUMENT...: make in the sources, inside the guest root, at the
# lowest priority.
in_source()
{
	in_root nice -n 19 make -C "$source" O="$tree" ARCH="$arch" \
		-j"$(nproc)" "$@"
}

# not_taken: print the options that the kernel's configuration refused, one a
# line.
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

# build_kernel TITLE: configure the kernel by configure(), build it (without
# make's -s, so that the progress shows) and put it in place.
build_kernel()
{
	mkdir -p "$tree"
	step "$1: configure" configure
	not_taken >&2
	step "$1: compile (takes long)" in_source bzImage modules
	step "$1: collect" collect
}
