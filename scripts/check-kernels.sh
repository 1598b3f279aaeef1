#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Usage: check-kernels.sh [PATTERN]. Compile the module, with W=1, for every
# kernel that Debian offers headers of (12 and its backports, 13, its security
# updates and backports, and sid; also the cloud and PREEMPT_RT flavours), or
# for those whose release matches PATTERN, as in '*-rt-*'. Kernels before 6.12
# must be refused with what they lack. The headers are unpacked in
# build/kernels/, not installed, and the module isn't loaded.

. "$(dirname "$0")/../machine/machine.sh"

pattern=${1:-*}
folder=$BUILD/kernels
mirror=http://deb.debian.org
oldest=6.12
suites=(debian/dists/bookworm debian/dists/bookworm-backports
	debian/dists/trixie debian-security/dists/trixie-security
	debian/dists/trixie-backports debian/dists/sid)
mkdir -p "$folder/debs"
locked check-kernels

# index: list the packages that belong to a kernel's headers, in index.new: a
# line each, NAME URL SHA256 DEPENDS.
index()
{
	local suite
	for suite in "${suites[@]}"; do
		curl -sSf --retry 3 \
			"$mirror/$suite/main/binary-amd64/Packages.xz" |
			xz -dc |
			awk -v root="$mirror/${suite%%/*}" \
				-v want='^linux-(headers|kbuild)-[0-9]' '
				/^Package: / { name = $2 }
				/^Filename: / { file = $2 }
				/^SHA256: / { sum = $2 }
				/^Depends: / { depends = substr($0, 10) }
				/^$/ {
					if (name ~ want)
						print name, root "/" file, sum,
							depends
					depends = ""
				}'
	done | sort -u -k 1,1 > "$folder/index.new"
}

# fetch NAME TO: download that package and unpack it.
fetch()
{
	local name url sum deb=$folder/debs/$1.deb
	read -r name url sum _ < <(grep "^$1 " "$folder/index")
	if ! sha256sum --status -c <<< "$sum  $deb" 2> /dev/null; then
		curl -sSf --retry 3 -o "$deb" "$url"
		sha256sum --quiet -c <<< "$sum  $deb"
	fi
	dpkg -x "$deb" "$2"
}

# prepare KVER: unpack its headers and what they depend on.
prepare()
{
	local tree=$folder/$1 name
	[ ! -e "$tree" ] || return 0
	rm -rf "$tree.new"
	fetch "linux-headers-$1" "$tree.new"
	grep "^linux-headers-$1 " "$folder/index" | cut -d ' ' -f 4- |
		grep -oE 'linux-(headers|kbuild)-[0-9][^ ,]*' |
		while read -r name; do
			fetch "$name" "$tree.new"
		done
	sed -i "s|/usr/src/|$tree/usr/src/|" \
		"$tree.new/usr/src/linux-headers-$1/Makefile"
	mv "$tree.new" "$tree"
}

# compile KVER: the log says how it went. The compiler is the guest root's: that
# of sid knows more attributes in the kernel's headers.
compile()
{
	local work=$folder/$1.module
	as_root rm -rf "$work"
	mkdir "$work"
	cp "$PROJECT"/kernel/*.[ch] \
		"$PROJECT"/kernel/{Kbuild,Makefile,features.sh} "$work/"
	in_root make -s -j"$(nproc)" -C "$work" KVER="$1" CC=gcc W=1 \
		KCFLAGS='-Werror -Wno-attributes' \
		KDIR="$folder/$1/usr/src/linux-headers-$1" \
		floop.ko
}

# run COMMAND...: run it, its output added to $log, with its progress
run()
{
	(trap - INT QUIT; "$@") >> "$log" 2>&1 < /dev/null &
	progress $! "$log" "$title"
}

[ -e "$ROOT/floop/stamp" ] || "$PROJECT/machine/setup.sh" --no-module
log=$BUILD/logs/check-kernels-index.log title=''
: > "$log"
run index || die "no list of kernels: $(cat "$log")"
mv "$folder/index.new" "$folder/index"
mapfile -t all < <(sed -n 's/^linux-headers-\([^ ]*amd64\) .*/\1/p' \
	"$folder/index" | sort -V)
bad=0
for kver in "${all[@]}"; do
	# shellcheck disable=SC2053 # a pattern
	[[ $kver == $pattern ]] || continue
	log=$BUILD/logs/check-kernels-$kver.log
	: > "$log"
	printf -v title 'check-kernels: %-32s' "$kver"
	printf '%s' "$title"
	if ! run prepare "$kver"; then
		said='FAILED to get the headers'
	elif run compile "$kver"; then
		said=ok
	elif grep -q "^floop: Linux $kver lacks what floop needs" "$log"; then
		said='refused'
	else
		said=FAILED
	fi
	as_root rm -rf "$folder/$kver.module"
	wanted=ok
	! dpkg --compare-versions "$kver" lt "$oldest" || wanted=refused
	printf '%s\n' "$said"
	if [ "$said" != "$wanted" ]; then
		printf 'wanted: %s\n' "$wanted"
		tail -n 15 "$log"
		bad=1
	fi
done
[ "$bad" = 0 ]
