# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
# Files and their content.
[ -z "${FILES_SH-}" ] || return 0
FILES_SH=1

# mkimage SIZE [PATH] - a sparse file; prints its path (in $WORK unless told)
mkimage() {
	local path=${2-}
	[ -n "$path" ] || path=$(mktemp "$WORK/image.XXXXXX")
	truncate -s 0 "$path"
	truncate -s "$1" "$path"
	echo "$path"
}

# noise FILE MEGABYTES - fill it with incompressible bytes
noise() {
	head -c "$2M" /dev/urandom >"$1"
}

sum_of() {
	local line
	line=$(sha256sum "$1")
	echo "${line%% *}"
}

# glob PATTERN - the paths that match it, on one line; nothing if there are none
glob() {
	local paths=()
	mapfile -t paths < <(compgen -G "$1" | sort)
	echo "${paths[*]}"
}

# written PATH SIZE SEED - a file without holes, of that pattern, on the disk
written() {
	pattern write -q -s "$3" "$1" "$2"
}

# fragmented FILE MEGABYTES - in pieces of 64k, with another file's between them
fragmented() {
	local i at
	: >"$1"
	: >"$1.other"
	for ((i = 0; i < $2 * 16; i++)); do
		at=$((i * 64))k
		printf '%s\n' "file 0" "pwrite -q $at 64k" fsync \
			"file 1" "pwrite -q $at 64k" fsync
	done | xfs_io -d "$1" "$1.other" >/dev/null
	rm "$1.other"
}
