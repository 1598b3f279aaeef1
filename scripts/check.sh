#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# What `make check` runs: checkpatch --strict, the module with W=1 and sparse, clippy, rustfmt, ruff,
# a lint of shell scripts, docs/safety.md against the kernels' sources, and the module for kernels
# that are built otherwise. Runs all of them and fails if one of them had anything to say.
# Usage: check.sh [NAME]..., all without a name: checkpatch, module, clippy, rustfmt, ruff,
# or shellcheck, safety, builds.

. "$(dirname "$0")/../machine/machine.sh"
cd "$PROJECT"

# The tools of the kernel's sources, which are in no package that is installed.
tools=$BUILD/src/tools
kernel_tools()
{
	"$PROJECT/machine/linux-source.sh" stable
	rm -rf "$tools.new"
	mkdir -p "$tools.new"
	tar -x -C "$tools.new" --strip-components=1 --wildcards -f "$BUILD/src/stable.tar.xz" \
		'*/scripts/checkpatch.pl' '*/scripts/spelling.txt' \
		'*/scripts/const_structs.checkpatch' '*/scripts/checker-valid.sh'
	mv "$tools.new" "$tools"
}

check_checkpatch()
{
	# Left out: version checks (what compat.h is for; one rule takes LINUX_VERSION_CODE for a
	# constant), a MAINTAINERS entry, kzalloc_obj (the LTS kernel has none), and ENOSYS, which the
	# driver's interface demands.
	perl "$tools/scripts/checkpatch.pl" --no-tree --strict --terse --no-summary --show-types \
		--ignore LINUX_VERSION_CODE,CONSTANT_COMPARISON,FILE_PATH_CHANGES,ALLOC_WITH_SIZEOF,ENOSYS \
		-f kernel/*.[ch]
}

# Both forms of the module on both kernels: every warning of W=1 is an error, and so is what sparse
# says of our own files (it also reports on the kernel's headers). Debian's package of the headers
# may lack the script that C=2 needs, and its sparse may be older than the kernel asks for: it gets
# the one word that it misses, and is not asked to prove static assertions, which it can't.
check_module()
{
	local kver scripts work said bad=0
	for scripts in "$ROOT"/usr/src/linux-headers-*-common/scripts; do
		[ -e "$scripts/checker-valid.sh" ] ||
			as_root cp "$tools/scripts/checker-valid.sh" "$scripts/"
	done
	for kver in $(kernels); do
		work=$(mktemp -d "$BUILD/check.XXXXXX")
		cp -r kernel/. "$work/"
		said=$(in_root make -s -j"$(nproc)" -C "$work" KVER="$kver" W=1 KCFLAGS=-Werror C=2 \
			CHECK='sparse -D__typeof_unqual__=__typeof__ "-D_Static_assert(...)="' 2>&1) ||
			bad=1
		as_root rm -rf "$work"
		printf '%s\n' "$said" | sed "s|$work/||g" > "$BUILD/logs/check-module-$kver.log"
		grep -E '^(drop-in/)?[a-z0-9_-]+\.[ch]:|error|sparse is not available' \
			"$BUILD/logs/check-module-$kver.log" && bad=1
	done
	return $bad
}

check_clippy()
{
	cargo clippy --quiet --manifest-path cli/Cargo.toml --all-targets -- -D warnings
}

check_rustfmt()
{
	cargo fmt --manifest-path cli/Cargo.toml --check
}

check_ruff()
{
	"$BUILD/venv/bin/ruff" check --quiet . && "$BUILD/venv/bin/ruff" format --quiet --diff .
}

check_shellcheck()
{
	local files
	mapfile -t files < <(git ls-files -co --exclude-standard |
		xargs -d '\n' grep -lE -m 1 '^#!.*(/|env )(ba|da)?sh\b')
	shellcheck "${files[@]}"
}

# It fetches both kernels' sources if they are not there yet.
check_safety()
{
	"$BUILD/venv/bin/python" scripts/block-changers.py
}

# What no kernel of ours here is: compiled only.
check_builds()
{
	local name bad=0
	for name in i386 small; do
		scripts/check-build.sh stable "$name" || bad=1
	done
	return $bad
}

[ -d "$tools" ] || step "the kernel's own checkers" kernel_tools
failed=()
[ $# -gt 0 ] || set -- checkpatch module clippy rustfmt ruff shellcheck safety builds
for name; do
	printf 'check: %-12s' "$name"
	start=$SECONDS
	if said=$(set +e; "check_$name" 2>&1); then
		printf 'ok (%d s)\n' $((SECONDS - start))
		grep '^note: ' <<< "$said" || true
	else
		printf 'FAILED\n%s\n' "$said"
		failed+=("$name")
	fi
done
[ ${#failed[@]} = 0 ] || die "failed: ${failed[*]}"
