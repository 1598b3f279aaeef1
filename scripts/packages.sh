#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Usage: packages.sh [FOLDER]. Make the packages in dist/, for `make packages`:
# Debian's from debian/, and RPMs of the command and of the module's sources
# from packaging/*.yaml. They are built from the tracked files (and new ones) in
# build/packages/. The same sources give the same packages. With FOLDER, all is
# made anew there, and the packages are in FOLDER/dist.

. "$(dirname "$0")/common.sh"
locked packages

version=$(version)
work=${1:-$BUILD/packages}
dist=${1:-$PROJECT}/dist
source=$work/floop-$version
crates=$work/target
[ "${1:-}" ] || crates=$PROJECT/cli/target
nfpm=v2.43.4
nfpm_folder=$BUILD/packages/nfpm-$nfpm

# The day of the changelog's entry, unless the caller has another one
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(dpkg-parsechangelog \
	-l "$PROJECT/debian/changelog" -S Timestamp)}
export SOURCE_DATE_EPOCH

copy()
{
	rm -rf "$source" "$work"/*.{deb,buildinfo,changes}
	mkdir -p "$source"
	(cd "$PROJECT" && git ls-files -z -co --exclude-standard |
		xargs -0 cp --parents -d -t "$source" )
}

# -d: cargo may be one that Debian's packages know nothing of. Without FOLDER,
# cargo (since 1.91) finds the crates that `make cli` has compiled.
debian_packages()
{
	(cd "$source" && CARGO_TARGET_DIR=$work/target \
		CARGO_BUILD_BUILD_DIR=$crates \
		dpkg-buildpackage -d -b -us -uc)
}

fetch_nfpm()
{
	[ -x "$nfpm_folder/nfpm" ] ||
		GOGC=400 GOBIN=$nfpm_folder go install \
			"github.com/goreleaser/nfpm/v2/cmd/nfpm@$nfpm"
}

# The RPMs have the files that the Debian packages have.
rpms()
{
	local name
	export VERSION=$version
	sed -i "s/@VERSION@/$version/" "$source"/packaging/dkms-*.sh
	for name in floop dkms-floop; do
		(cd "$source" && "$nfpm_folder/nfpm" package \
			--packager rpm --config "packaging/$name.yaml" \
			--target "$work/new")
	done
}

# Tags of the level "info" don't count: Rust has no fortified functions, there
# are no scripts for other inits, and a "spelling error" is two words' ends.
check_packages()
{
	lintian --allow-root --fail-on error,warning \
		"$work"/floop_"$version"_*.changes
}

rm -rf "$work/new"
mkdir -p "$work/new"
step "packages: copy the sources" copy
# Before what needs cargo, which `make cli` has until then
if command -v go > /dev/null; then
	step "packages: nfpm $nfpm (once)" fetch_nfpm
fi
step "packages: Debian's (cargo fetches the crates)" debian_packages
step "packages: lintian" check_packages
cp "$work"/*_"$version"_*.deb "$work/new/"
if command -v go > /dev/null; then
	step "packages: RPMs" rpms
else
	echo "note: no RPMs: Go, which builds nfpm, is not installed" >&2
fi
rm -rf "$dist"
mv "$work/new" "$dist"
ls "$dist"
