#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Have DKMS build floop from its package in dist/, for the stable kernel, in a
# layer above the guest root, and keep DKMS's folder in build/packages/dkms.tar.
# It says "built", so that DKMS installs the module in an emulated machine
# (users/packages), where compiling would take many minutes. It is made again
# when the package or the recipe changes.

. "$(dirname "$0")/machine.sh"
locked packages-module

debs=$BUILD/packages/trixie
package=$(echo "$PROJECT"/dist/floop-dkms_*.deb)
built=$BUILD/packages/dkms.tar
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
		# DKMS builds for all kernels that have headers.
		mv "/lib/modules/$2/build" /tmp/
		rm -f /lib/modules/*/build
		mv /tmp/build "/lib/modules/$2/"
		export DEBIAN_FRONTEND=noninteractive
		dpkg -i /tmp/*.deb
		dkms uninstall -m floop -v "$1" -k "$2"
		dkms status
		rm -rf "/var/lib/dkms/floop/$1/build"
		tar -C /var/lib -cf /tmp/dkms.tar dkms
	' build "$(version)" "$kver"
	cp "$layer/root/tmp/dkms.tar" "$built.new"
}

build()
{
	as_root rm -rf "$layer"
	mkdir -p "$layer"/{root,upper,work}
	as_root unshare --mount --fork bash -euc "
		$(declare -p ROOT PROJECT layer debs package built kver)
		$(declare -f version enter)
		enter"
	as_root rm -rf "$layer"
	mv "$built.new" "$built"
}

kver=$(kernels | sort -V | tail -n 1)
stamp=$(stamp_of kver version enter < "$package")
[ "$(cat "$built.stamp" 2> /dev/null)" = "$stamp" ] && [ -s "$built" ] && exit 0
step "packages: DKMS builds the module of the package" build
printf '%s\n' "$stamp" > "$built.stamp"
