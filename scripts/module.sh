#!/bin/bash
# Usage: module.sh KVER [debug]. Build the module for the guest's kernel KVER (Debian's, its
# PREEMPT_RT kernel, or a debug kernel), inside the guest root and from a copy of kernel/, into build/modules/KVER/{floop,loop}.ko;
# with "debug" into floop-debug.ko, whose guard can be told to break its rules (kernel/rules.h). Only
# if its sources changed. What it was built from stays in KVER.build/, with debug information.

. "$(dirname "$0")/lib.sh"

kver=${1:?which kernel}
case ${2:-} in
'') modules=(floop loop) ;;
debug) modules=(floop-debug) ;;
*) die "$2: only \"debug\" can stand here" ;;
esac
out=$BUILD/modules/$kver
work=$out.build${2:+-$2}
stamp_file=$out/stamp${2:+-$2}
locked "module-$kver"

headers=/lib/modules/$kver/build
stamps=("$ROOT/floop/stamp")
for further in "$BUILD"/debug-kernel/*/ "$BUILD/rt/"; do
	if [ "$(cat "$further/release" 2> /dev/null)" = "$kver" ]; then
		headers=${further}linux
		[ -e "$headers" ] || headers=${further}lib/modules/$kver/build
		stamps=("${further}stamp")
	fi
done

stamp=$(cd "$PROJECT/kernel" && find . -name '*.[ch]' -o -name Kbuild -o -name Makefile |
	LC_ALL=C sort | xargs sha256sum "${stamps[@]}" | sha256sum)
[ "$(cat "$stamp_file" 2> /dev/null)" = "$stamp" ] && exit 0

build()
{
	local module
	as_root rm -rf "$work"
	mkdir -p "$work" "$out"
	cp -r "$PROJECT/kernel/." "$work/"
	in_root make -s -j"$(nproc)" -C "$work" KVER="$kver" KDIR="$headers" W=1 \
		"${modules[@]/%/.ko}"
	for module in "${modules[@]}"; do
		in_root strip -g -o "$out/$module.ko.new" "$work/$module.ko"
		mv "$out/$module.ko.new" "$out/$module.ko"
	done
}

step "the module for $kver${2:+ ($2)}" build
printf '%s\n' "$stamp" > "$stamp_file"
