#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Have DKMS build floop from its package in dist/, for both kernels, in a layer
# above the guest root, and keep what it has for each in
# build/packages/dkms-KERNEL.tar. That says "built", so that DKMS installs the
# module in an emulated machine (users/packages), where compiling would take
# many minutes. It is made again when the package or the recipe changes.

. "$(dirname "$0")/machine.sh"
locked packages-module

debs=$BUILD/packages/trixie
package=$(echo "$PROJECT"/dist/floop-dkms_*.deb)
stamp_file=$BUILD/packages/dkms.stamp
layer=$BUILD/packages/module-layer

# Runs in mounts of its own.
enter()
{
	mount --make-rprivate /
	mount -t overlay overlay "$layer/root" -o \
		"lowerdir=$ROOT,upperdir=$layer/upper,workdir=$layer/work"
	mount -t proc proc "$layer/root/proc"
	mount -t tmpfs tmpfs "$layer/root/tmp"
	cp "$debs"/*.deb "$package" "$layer/root/tmp/"
	chroot "$layer/root" bash -euc '
		export DEBIAN_FRONTEND=noninteractive
		dpkg -i /tmp/*.deb
		for kver in "${@:2}"; do
			dkms uninstall -m floop -v "$1" -k "$kver"
			tar -C /var/lib -cf "/tmp/dkms-$kver.tar" \
				dkms/mok.{key,pub} \
				"dkms/floop/$1"/{source,"$kver"}
		done
	' build "$(version)" "${kvers[@]}"
	cp "$layer/root"/tmp/dkms-*.tar "$BUILD/packages/"
}

build()
{
	as_root rm -rf "$layer"
	mkdir -p "$layer"/{root,upper,work}
	as_root unshare --mount --fork bash -euc "
		$(declare -p ROOT BUILD PROJECT layer debs package kvers)
		$(declare -f version enter)
		enter"
	as_root rm -rf "$layer"
}

mapfile -t kvers < <(kernels)
stamp=$(stamp_of kvers version enter < "$package")
[ "$(cat "$stamp_file" 2> /dev/null)" = "$stamp" ] && exit 0
step "packages: DKMS builds the package's modules" build
printf '%s\n' "$stamp" > "$stamp_file"
