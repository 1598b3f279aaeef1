#!/bin/bash
# What `make check` runs: checkpatch --strict, the module on both kernels and in both forms with
# W=1 and every warning an error, sparse, clippy, rustfmt, ruff and shellcheck. Runs all of them
# and fails if one of them had anything to say. Usage: check.sh [NAME]..., all without a name.

. "$(dirname "$0")/lib.sh"
cd "$PROJECT"

# The tools of the kernel's sources, which are in no package that is installed.
tools=$BUILD/src/tools
kernel_tools()
{
	[ -d "$tools" ] && return
	"$PROJECT/scripts/linux-source.sh" stable
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

# build KVER WORD...: build a copy of the module for KVER with these words for make.
build()
{
	local kver=$1 work
	shift
	work=$(mktemp -d "$BUILD/check.XXXXXX")
	cp -r kernel/. "$work/"
	in_root make -s -C "$work" KVER="$kver" "$@" 2>&1 | sed "s|$work/|kernel/|g"
	set -- "${PIPESTATUS[@]}"
	rm -rf "$work"
	return "$1"
}

check_warnings()
{
	local kver bad=0
	for kver in $(kernels); do
		build "$kver" W=1 KCFLAGS=-Werror || bad=1
	done
	return $bad
}

# sparse also reports on the kernel's own headers: only what it says of our files counts. (C=2
# needs a script that Debian's packages of the kernel's headers may leave out.)
check_sparse()
{
	local kver bad=0 said scripts
	for scripts in "$ROOT"/usr/src/linux-headers-*-common/scripts; do
		[ -e "$scripts/checker-valid.sh" ] ||
			as_root cp "$tools/scripts/checker-valid.sh" "$scripts/"
	done
	for kver in $(kernels); do
		said=$(build "$kver" C=2) || bad=1
		printf '%s\n' "$said" | grep -E '^(kernel/)?(drop-in/)?[a-z0-9_-]+\.[ch]:' && bad=1
		[ $bad = 0 ] || printf '%s\n' "$said" | tail -n 20
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

step "the kernel's own checkers" kernel_tools
failed=()
[ $# -gt 0 ] || set -- checkpatch warnings sparse clippy rustfmt ruff shellcheck
for name; do
	printf 'check: %-12s' "$name"
	start=$SECONDS
	if said=$(set +e; "check_$name" 2>&1); then
		printf 'ok (%d s)\n' $((SECONDS - start))
	else
		printf 'FAILED\n%s\n' "$said"
		failed+=("$name")
	fi
done
[ ${#failed[@]} = 0 ] || die "failed: ${failed[*]}"
