#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Usage: check.sh [lint | NAME...]. Run the named checks, default all, for `make
# check` and `make lint`; fail if one of them fails. These read the sources, as
# any user; `lint` means all of them:
#   clippy rustfmt ruff shellcheck
#   checkpatch  checkpatch --strict, where the kernel's script is there
#   spdx        each source file names its licence
#   version     the same version stands everywhere
#   columns     sources and prose wrap at 80 columns
# These need the guest root, and root to enter it:
#   module      the module on both kernels, with W=1 and sparse
#   safety      docs/safety.md against the kernels' sources
#   builds      the module for kernels of other configurations

. "$(dirname "$0")/../machine/machine.sh"
cd "$PROJECT"

lint=(clippy rustfmt ruff shellcheck checkpatch spdx version columns)
guest=(module safety builds)

# Tools from the kernel's sources that no installed package has
tools=$BUILD/src/tools
kernel_tools()
{
	"$PROJECT/machine/linux-source.sh" stable
	rm -rf "$tools.new"
	mkdir -p "$tools.new"
	tar -x -C "$tools.new" --strip-components=1 --wildcards \
		-f "$BUILD/src/stable.tar.xz" \
		'*/scripts/checkpatch.pl' '*/scripts/spelling.txt' \
		'*/scripts/const_structs.checkpatch' \
		'*/scripts/checker-valid.sh'
	mv "$tools.new" "$tools"
}

set_up()
{
	[ -z "${is_set_up:-}" ] || return 0
	is_set_up=yes
	machine/setup.sh --no-module
	[ -d "$tools" ] || step "the kernel's own checkers" kernel_tools
}

# sources: list the tracked files that are programs, by their names or first
# lines. The planted bugs are patches, and don't count.
sources()
{
	git ls-files '*.[ch]' '*.rs' '*.py' '*.sh' '*.pml' '*.rules' \
		'*.service' '*Makefile' '*Kbuild'
	git ls-files | grep -v '\.[a-z]*$' | xargs -d '\n' grep -l -m 1 '^#!'
}

check_clippy()
{
	cargo clippy --quiet --manifest-path cli/Cargo.toml --all-targets -- \
		-D warnings
}

check_rustfmt()
{
	cargo fmt --manifest-path cli/Cargo.toml --check
}

check_ruff()
{
	"$BUILD/venv/bin/ruff" check --quiet . &&
		"$BUILD/venv/bin/ruff" format --quiet --diff .
}

check_shellcheck()
{
	git ls-files -co --exclude-standard |
		xargs -d '\n' grep -lE -m 1 '^#!.*(/|env )(ba|da)?sh\b' |
		xargs -d '\n' -n 16 -P "$(nproc)" shellcheck
}

# Ignored: version checks, which compat.h is for (CONSTANT_COMPARISON takes
# LINUX_VERSION_CODE for a constant), a missing MAINTAINERS entry, kzalloc_obj,
# which the LTS kernel lacks, and ENOSYS, which the driver's interface demands.
check_checkpatch()
{
	local ignore=LINUX_VERSION_CODE,CONSTANT_COMPARISON,FILE_PATH_CHANGES
	ignore+=,ALLOC_WITH_SIZEOF,ENOSYS
	if [ ! -d "$tools" ]; then
		echo "note: skipped: \`make check CHECK=checkpatch\` fetches it"
		return
	fi
	perl "$tools/scripts/checkpatch.pl" --no-tree --strict --terse \
		--no-summary --show-types --ignore "$ignore" -f kernel/*.[ch]
}

check_spdx()
{
	local files without
	mapfile -t files < <(sources | sort -u)
	without=$(grep -L SPDX-License-Identifier "${files[@]}" || true)
	[ -z "$without" ] || printf 'no SPDX line: %s\n' "$without"
	[ -z "$without" ]
}

# The version is set in cli/Cargo.toml, where 0.1.0 stands for 0.1.
check_version()
{
	local version bad=0
	version=$(version)
	version=${version%.0}
	has()
	{
		grep -qE "$2" "$1" && return
		printf '%s: not version %s\n' "$1" "$version"
		bad=1
	}
	has kernel/names.h "FLOOP_VERSION[[:space:]]+\"floop $version\"\$"
	has CHANGELOG.md "^## $version( |\$)"
	has debian/changelog "^floop \\(${version//./\\.}(\\.0)?\\) "
	has README.md "Version ${version}[, ]"
	return $bad
}

check_columns()
{
	python3 scripts/columns.py
}

# The module on both kernels. Every warning of W=1 is an error, as is every
# report of sparse on our own files (it also reports on the kernel's headers).
# Debian's package of the headers may lack the script that C=2 needs.
# Its sparse may be older than the kernel requires: define the one keyword that
# it lacks, and leave out static assertions, which it can't evaluate.
check_module()
{
	local kver scripts work said log bad=0
	local sparse='sparse -D__typeof_unqual__=__typeof__'
	sparse+=' "-D_Static_assert(...)="'
	for scripts in "$ROOT"/usr/src/linux-headers-*-common/scripts; do
		[ -e "$scripts/checker-valid.sh" ] ||
			as_root cp "$tools/scripts/checker-valid.sh" "$scripts/"
	done
	for kver in $(kernels); do
		work=$(mktemp -d "$BUILD/check.XXXXXX")
		cp -r kernel/. "$work/"
		said=$(in_root make -s -j"$(nproc)" -C "$work" KVER="$kver" \
			W=1 KCFLAGS=-Werror C=2 CHECK="$sparse" 2>&1) ||
			bad=1
		as_root rm -rf "$work"
		log=$BUILD/logs/check-module-$kver.log
		printf '%s\n' "$said" | sed "s|$work/||g" > "$log"
		grep -E -e '^[a-z0-9_-]+\.[ch]:' -e error \
			-e 'sparse is not available' "$log" && bad=1
	done
	return $bad
}

# Fetches both kernels' sources if they are not there yet.
check_safety()
{
	"$BUILD/venv/bin/python" scripts/block-changers.py
}

# There are no kernels of these configurations to boot: compile the module only.
check_builds()
{
	local name bad=0
	for name in i386 small; do
		scripts/check-build.sh stable "$name" || bad=1
	done
	return $bad
}

fetch=yes
if [ $# = 0 ]; then
	set -- "${guest[@]}" "${lint[@]}"
elif [ "$*" = lint ]; then
	set -- "${lint[@]}"
	fetch=
fi
for name; do
	case $name in
	checkpatch) [ -z "$fetch" ] || [ -d "$tools" ] || set_up ;;
	module | safety | builds) set_up ;;
	clippy | rustfmt) need=cargo ;;
	shellcheck) need=shellcheck ;;
	ruff) [ -x "$BUILD/venv/bin/ruff" ] || machine/venv.sh ;;
	spdx | version | columns) ;;
	*) die "no check is called $name" ;;
	esac
	[ -z "${need:-}" ] || command -v "$need" > /dev/null ||
		die "$need is missing: machine/host-packages.sh installs it"
	need=
done

# Not in build/logs/, where root's runs leave files that others can't write.
log=$(mktemp)
trap 'rm -f "$log"' EXIT
failed=()
for name; do
	printf -v title 'check: %-12s' "$name"
	printf '%s' "$title"
	start=$SECONDS
	(trap - INT QUIT; set +e; "check_$name") > "$log" 2>&1 &
	if progress $! "$log" "$title"; then
		printf 'ok (%d s)\n' $((SECONDS - start))
		grep '^note: ' "$log" || true
	else
		printf 'FAILED\n'
		cat "$log"
		failed+=("$name")
	fi
done
[ ${#failed[@]} = 0 ] || die "failed: ${failed[*]}"
