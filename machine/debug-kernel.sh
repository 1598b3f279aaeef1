#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Usage: debug-kernel.sh lts|stable|race|coverage. Build a kernel with more
# checks than Debian's, from Debian's linux-source, inside the guest root, into
# build/debug-kernel/NAME; again only when its options change. lts and stable
# are those series with KASAN, lockdep and more, race is the stable one with
# KCSAN, and coverage the stable one with gcov. Takes long, at the lowest
# priority.

. "$(dirname "$0")/machine.sh"
. "$PROJECT/machine/kernels.sh"

name=${1:?lts, stable, race or coverage}
case $name in
lts | stable) series=$name kind=debug ;;
race | coverage) series=stable kind=$name ;;
*) die "$name: not lts, stable, race or coverage" ;;
esac
# The last one counts.
configs=("$PROJECT"/machine/configs/{test,"$kind"}.config)
source=$BUILD/builds/$series
out=$BUILD/debug-kernel/$name
tree=$out/linux
arch=x86
locked "debug-kernel-$name"

stamp=$(cat "${configs[@]}" | sha256sum)
[ "$(cat "$out/stamp" 2> /dev/null)" = "$stamp" ] && exit 0

"$PROJECT/machine/linux-source.sh" "$series"

unpack()
{
	exec 8> "$BUILD/build-$series.lock"
	flock 8
	[ -d "$source" ] || unpack_source "$series" "$source"
}

configure()
{
	in_source -s defconfig kvm_guest.config
	in_root sh -euc '
		cd "$1"
		tree=$2
		shift 2
		scripts/kconfig/merge_config.sh -m -O "$tree" \
			"$tree/.config" "$@"' \
		sh "$source" "$tree" "${configs[@]}"
	in_source -s olddefconfig
}

step "$kind kernel, $series: unpack" unpack
build_kernel "$kind kernel, $series"
printf '%s\n' "$stamp" > "$out/stamp"
