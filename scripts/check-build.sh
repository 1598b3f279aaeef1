#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Usage: check-build.sh lts|stable NAME. Compile the module, with W=1, for a
# kernel with another configuration than Debian's. NAME: i386, or small (without
# cgroups, SMP, tracing, integrity and 32-bit programs). The kernel is only
# prepared, not built, so the module's undefined symbols are not checked, except
# for 64-bit divisions, which no kernel has a function for.

. "$(dirname "$0")/../machine/machine.sh"

kernel=${1:?lts or stable}
name=${2:?i386 or small}
tree=$BUILD/builds/$kernel
out=$BUILD/builds/$kernel-$name
locked "build-$kernel"

arch=x86_64 options=()
case $name in
i386) arch=i386 ;;
small)
	options=(-d CGROUPS -d SMP -d FTRACE -d BLK_DEV_INTEGRITY
		-d IA32_EMULATION)
	;;
*) die "no such build: $name" ;;
esac

in_tree()
{
	in_root make -C "$tree" O="$out" ARCH="$arch" -s -j"$(nproc)" "$@"
}

prepare()
{
	as_root rm -rf "$out"
	in_tree defconfig
	[ ${#options[@]} = 0 ] ||
		in_root "$tree/scripts/config" --file "$out/.config" \
			"${options[@]}"
	in_tree olddefconfig
	local option bad=0
	for option in "${options[@]}"; do
		[ "$option" != -d ] || continue
		! grep "^CONFIG_$option=" "$out/.config" || bad=1
	done
	[ "$bad" = 0 ] || die "not taken"
	in_tree modules_prepare
	as_root touch "$out/prepared"
}

"$PROJECT/machine/linux-source.sh" "$kernel"
[ -d "$tree" ] ||
	step "build for $kernel: unpack" unpack_source "$kernel" "$tree"
[ -e "$out/prepared" ] || step "build for $kernel, $name: prepare" prepare

work=$(mktemp -d "$BUILD/check.XXXXXX")
bad=0
cp kernel/*.[ch] kernel/{Kbuild,features.sh} "$work/"
# A kernel that isn't built has no list of exported symbols.
log=$BUILD/logs/check-build-$kernel-$name-module.log
in_root make -s -j"$(nproc)" -C "$out" M="$work" W=1 KCFLAGS=-Werror \
	KBUILD_MODPOST_WARN=1 modules > "$log" 2>&1 || bad=1
grep -E '^[a-z0-9_-]+\.[ch]:|error:' "$log" && bad=1
if nm -u "$work"/*.o | grep -E ' __u?(div|mod|divmod)[dst]i[34]$'; then
	printf 'a 64-bit division, which the kernel has no function for\n'
	bad=1
fi
as_root rm -rf "$work"
[ "$bad" = 0 ]
