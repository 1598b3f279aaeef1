#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Usage: module.sh KVER floop|debug. Build that module for the guest's
# kernel KVER (Debian's, its PREEMPT_RT kernel, or one that was built here),
# inside the guest root, into
# build/modules/KVER/{floop,floop-debug}.ko. "debug" is the debug build,
# whose guard can be told to break its rules (kernel/rules.h). Only changed
# files are compiled, in KVER.build-NAME, where the module stays with debug
# information.

. "$(dirname "$0")/machine.sh"

kver=${1:?which kernel}
name=${2:?which module}
case $name in
floop) module=floop ;;
debug) module=floop-debug ;;
*) die "$name: not floop or debug" ;;
esac
out=$BUILD/modules/$kver
work=$out.build-$name
locked "module-$kver-$name"

headers=/lib/modules/$kver/build
stamps=("$ROOT/floop/stamp")
for further in "$BUILD"/debug-kernel/*/ "$BUILD"/{rt,i386,built-in}/; do
	if [ "$(cat "$further/release" 2> /dev/null)" = "$kver" ]; then
		headers=${further}linux
		[ -e "$headers" ] || headers=${further}lib/modules/$kver/build
		stamps=("${further}stamp")
	fi
done

sources=("$PROJECT"/kernel/*.[ch]
	"$PROJECT"/kernel/{Kbuild,Makefile,features.sh})
base=$(cat "${stamps[@]}" | sha256sum)
stamp=$(cat "${sources[@]}" - <<< "${sources[*]##*/} $base" | sha256sum)
[ "$(cat "$out/stamp-$name" 2> /dev/null)" = "$stamp" ] && exit 0

# Copy the sources to the work folder. Unchanged files keep their times there.
copy()
{
	local file
	if [ "$(cat "$work/base" 2> /dev/null)" != "$base" ]; then
		as_root rm -rf "$work"
	fi
	mkdir -p "$work" "$out"
	printf '%s\n' "$base" > "$work/base"
	for file in "$work"/*.[ch]; do
		case $file in *.mod.c) continue ;; esac
		[ -e "$PROJECT/kernel/${file##*/}" ] || as_root rm -f "$file"
	done
	for file in "${sources[@]}"; do
		cmp -s "$file" "$work/${file##*/}" || cp "$file" "$work/"
	done
}

# For the coverage kernel. gcov tells a branch by its line: a function that is
# inlined before gcov counts would have its branches at its callers' lines, and
# those of the kernel's headers at ours. Most branches aren't counted, but
# computed from others' counts, so none of these may be lost.
counted=()
case $kver in
*-coverage)
	counted=(GCOV_PROFILE=y
		KCFLAGS="-fno-early-inlining -fprofile-update=atomic")
	;;
esac

build()
{
	copy
	in_root make -s -j"$(nproc)" -C "$work" KVER="$kver" KDIR="$headers" \
		W=1 "${counted[@]}" "$module.ko"
	in_root strip -g -o "$out/$module.ko.new" "$work/$module.ko"
	mv "$out/$module.ko.new" "$out/$module.ko"
}

step "$module.ko for $kver" build
printf '%s\n' "$stamp" > "$out/stamp-$name"
