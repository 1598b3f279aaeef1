#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Usage: debug-kernel.sh lts|stable|race|coverage. Build a kernel that finds
# what Debian's can't, from Debian's linux-source, inside the guest root, into
# build/debug-kernel/NAME; once. lts and stable are those series with KASAN,
# lockdep and more, race is the stable one with KCSAN, and coverage the stable
# one with gcov. Takes long, and gives way to everything else on the machine.

. "$(dirname "$0")/machine.sh"

name=${1:?lts, stable, race or coverage}
case $name in
lts | stable) series=$name kind=debug ;;
race | coverage) series=stable kind=$name ;;
*) die "$name: not lts, stable, race or coverage" ;;
esac
configs=("$PROJECT"/machine/configs/{"$kind",test}.config)
source=$BUILD/builds/$series
out=$BUILD/debug-kernel/$name
tree=$out/linux
locked "debug-kernel-$name"

stamp=$(cat "${configs[@]}" | sha256sum)
[ "$(cat "$out/stamp" 2> /dev/null)" = "$stamp" ] && exit 0

"$PROJECT/machine/linux-source.sh" "$series"

in_source()
{
	in_root nice -n 19 make -C "$source" O="$tree" -j"$(nproc)" "$@"
}

unpack()
{
	exec 8> "$BUILD/build-$series.lock"
	flock 8
	[ -d "$source" ] || unpack_source "$series" "$source"
}

configure()
{
	local line
	mkdir -p "$tree"
	in_source -s defconfig kvm_guest.config
	in_root sh -euc '
		cd "$1"
		tree=$2
		shift 2
		scripts/kconfig/merge_config.sh -m -O "$tree" \
			"$tree/.config" "$@"' \
		sh "$source" "$tree" "${configs[@]}"
	in_source -s olddefconfig
	# An option that the kernel refused would be missed much later.
	grep -hE '^CONFIG.*=[ym]$' "${configs[@]}" | while IFS= read -r line; do
		grep -qx "$line" "$tree/.config" ||
			printf 'not taken: %s\n' "$line"
	done
}

# Without -s, so that the progress shows.
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
	cp "$tree/include/config/kernel.release" "$out/release"
}

step "$kind kernel, $series: unpack" unpack
step "$kind kernel, $series: configure" configure
log=$BUILD/logs/setup-$kind-kernel-$series-configure.log
grep 'not taken' "$log" >&2 || true
step "$kind kernel, $series: compile (takes long)" compile
step "$kind kernel, $series: collect" collect
printf '%s\n' "$stamp" > "$out/stamp"
