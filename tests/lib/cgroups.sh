# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Cgroups.
[ -z "${CGROUPS_SH-}" ] || return 0
CGROUPS_SH=1
. tests/lib/case.sh

CGROUPS=/sys/fs/cgroup

# mount_cgroups - with controllers for I/O and memory
mount_cgroups() {
	[ -e $CGROUPS/cgroup.controllers ] || mount -t cgroup2 cgroup2 $CGROUPS
	echo "+io +memory" >$CGROUPS/cgroup.subtree_control
}

# make_groups NAME... - until the end of the case
make_groups() {
	local groups=("${@/#/$CGROUPS/}")
	mkdir "${groups[@]}"
	later rmdir "${groups[@]}"
}

# in_group NAME COMMAND...
in_group() {
	local group=$CGROUPS/$1
	shift
	(
		echo "$BASHPID" >"$group/cgroup.procs"
		exec "$@"
	)
}

# limit GROUP KIND BYTES|max - as much of the first disk in a second
limit() {
	local disk
	disk=$(the_disk 1)
	echo "$(<"/sys/block/${disk#/dev/}/dev") $2=$3" >"$CGROUPS/$1/io.max"
}

# may_read GROUP BYTES|max
may_read() {
	limit "$1" rbps "$2"
}

# may_write GROUP BYTES|max
may_write() {
	limit "$1" wbps "$2"
}

# has_read GROUP - it has, or tries to, from $dev
has_read() {
	grep -q "^$(<"/sys/block/${dev#/dev/}/dev") .*rios=[1-9]" \
		"$CGROUPS/$1/io.stat"
}
