#!/bin/bash
# Usage: module.sh KVER. Build the module for the guest's kernel KVER, inside the guest root and
# from a copy of kernel/, into build/modules/KVER/{floop,loop}.ko; only if its sources changed.

. "$(dirname "$0")/lib.sh"

kver=${1:?which kernel}
out=$BUILD/modules/$kver
locked "module-$kver"

stamp=$(cd "$PROJECT/kernel" && find . -name '*.[ch]' -o -name Kbuild -o -name Makefile |
	LC_ALL=C sort | xargs sha256sum "$ROOT/floop/stamp" | sha256sum)
[ "$(cat "$out/stamp" 2> /dev/null)" = "$stamp" ] && exit 0

work=$BUILD/modules/$kver.build
build()
{
	rm -rf "$work"
	mkdir -p "$work" "$out"
	cp -r "$PROJECT/kernel/." "$work/"
	in_root make -s -C "$work" KVER="$kver" W=1
	cp "$work/floop.ko" "$work/loop.ko" "$out/"
}

step "the module for $kver" build
printf '%s\n' "$stamp" > "$out/stamp"
