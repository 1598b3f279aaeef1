#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Fetch Debian's PREEMPT_RT kernel of the LTS series, and its headers, into
# build/rt; again only when the guest root is a new one. The packages are not
# installed in the guest root, as few runs need them.

. "$(dirname "$0")/machine.sh"
locked rt-kernel

out=$BUILD/rt

fetch()
{
	as_root rm -rf "$out"
	fetch_packages "$out/fetch" linux-image-rt-amd64 linux-headers-rt-amd64
}

# Use the guest root's kbuild of a version that was not fetched: apt downloads
# only packages that the guest root lacks.
unpack()
{
	local release
	ln -s usr/lib "$out/lib"
	unpack_packages "$out/fetch" "$out" --exclude=./usr/share
	release=$(ls "$out/lib/modules")
	for kbuild in "$ROOT"/usr/lib/linux-kbuild-*; do
		[ -e "$out/lib/${kbuild##*/}" ] ||
			ln -s "/usr/lib/${kbuild##*/}" "$out/lib/"
	done
	# The headers' Makefile has the path where they would be installed.
	sed -i "s|/usr/src/|$out&|" \
		"$out/usr/src/linux-headers-$release/Makefile"
	mv "$out/boot/config-$release" "$out/lib/modules/$release/config"
	depmod -b "$out" "$release"
	printf '%s\n' "$release" > "$out/release"
}

stamp=$(stamp_of fetch fetch_packages unpack unpack_packages \
	< "$ROOT/floop/stamp")
[ "$(cat "$out/stamp" 2> /dev/null)" = "$stamp" ] && exit 0

step "the PREEMPT_RT kernel: fetch" fetch
step "the PREEMPT_RT kernel: unpack" unpack
printf '%s\n' "$stamp" > "$out/stamp"
