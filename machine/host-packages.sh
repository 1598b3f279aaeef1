#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Install the Debian packages that the host needs to set up and start the test
# machine; only those that are missing, so that a second run asks for neither
# root nor the network.

. "$(dirname "$0")/../scripts/common.sh"
locked host-packages

packages=(
	cpio              # the initramfs that virtme-ng makes
	debhelper         # the packages
	debian-archive-keyring
	dh-dkms           # dkms.conf
	dpkg-dev
	e2fsprogs         # the guest's root disk
	file              # used by virtme-ng
	fish              # its completions
	kmod              # used by virtme-ng
	lintian           # checks the packages
	make
	mmdebstrap
	rpm               # looks into the RPMs
	shellcheck
	spin tcc          # check model/
	util-linux
	zsh               # its completions
	zstd
)

need=()
for package in "${packages[@]}"; do
	installed "$package" || need+=("$package")
done

# Any python3 that can make a virtual environment will do, Debian's or not.
if ! python3 -c 'import ensurepip, venv' 2> /dev/null; then
	need+=(python3-venv)
fi
# So will any Rust tool chain that has clippy and rustfmt.
if ! cargo clippy --version > /dev/null 2>&1 ||
	! cargo fmt --version > /dev/null 2>&1; then
	need+=(cargo rust-clippy rustfmt)
fi
if ! command -v cc > /dev/null; then
	need+=(gcc libc6-dev)
fi

[ ${#need[@]} = 0 ] && exit 0
command -v apt-get > /dev/null ||
	die "install these packages (this is not Debian): ${need[*]}"
step "Debian packages: update the lists" as_root apt-get update
step "Debian packages: ${need[*]}" \
	as_root env DEBIAN_FRONTEND=noninteractive \
	apt-get install -y --no-install-recommends "${need[@]}"
