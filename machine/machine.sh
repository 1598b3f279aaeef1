#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Shared by the scripts of the test machine: the guest root, and how to run a
# command inside it. Sources scripts/common.sh. To be sourced, not run.

. "$(dirname "${BASH_SOURCE[0]}")/../scripts/common.sh"

ROOT=$BUILD/root

# stamp_of NAME...: print a checksum of functions and variables of these names,
# and of standard input. Comments in functions don't count.
stamp_of()
{
	local name
	{
		for name; do
			declare -f "$name" || declare -p "$name"
		done
		cat
	} | sha256sum
}

# unpack_source lts|stable FOLDER: unpack that kernel's sources, which
# linux-source.sh has fetched. FOLDER exists only if it is complete.
unpack_source()
{
	as_root rm -rf "$2.new"
	mkdir -p "$2.new"
	tar -x -C "$2.new" --strip-components=1 -f "$BUILD/src/$1.tar.xz"
	mv "$2.new" "$2"
}

# kernels: the releases of the guest's kernels, one a line.
kernels()
{
	sort -u "$ROOT/floop/lts" "$ROOT/floop/stable"
}

# fetch_packages FOLDER PACKAGE...: download Debian's packages of these names,
# and those that they need and the guest root lacks, to a folder of the project.
fetch_packages()
{
	mkdir -p "$1/partial"
	# shellcheck disable=SC2016 # the inner shell expands them
	in_root sh -euc '
		folder=$1
		shift
		apt()
		{
			apt-get -o Dir::State::lists=/tmp/lists \
				-o Dir::Cache::archives="$folder" \
				-o APT::Sandbox::User=root "$@"
		}
		mkdir -p /tmp/lists
		apt update
		apt install -y --no-install-recommends --download-only "$@"' \
		sh "$@"
}

# unpack_packages FROM TO [OPTION]...: unpack the packages in FROM, which goes
# away. OPTIONs are tar's.
unpack_packages()
{
	local package
	for package in "$1"/*.deb; do
		dpkg-deb --fsys-tarfile "$package" |
			tar -x -C "$2" --no-same-owner "${@:3}"
	done
	as_root rm -rf "$1"
}

# in_root COMMAND...: run COMMAND inside the guest root, with the project's
# folder bound at its own path and a fresh /tmp. All mounts are in a namespace
# of their own and vanish with it.
in_root()
{
	as_root unshare --mount --fork bash -euc '
		root=$1 project=$2
		shift 2
		mount --make-rprivate /
		mount -t proc proc "$root/proc"
		mount -t tmpfs tmpfs "$root/tmp"
		mkdir -p "$root$project"
		mount --bind "$project" "$root$project"
		exec chroot "$root" "$@"' in_root "$ROOT" "$PROJECT" "$@"
}
