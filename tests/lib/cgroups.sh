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

# may_read GROUP BYTES|max - as much of the first disk in a second
may_read() {
	local disk
	disk=$(the_disk 1)
	echo "$(<"/sys/block/${disk#/dev/}/dev") rbps=$2" >"$CGROUPS/$1/io.max"
}

# has_read GROUP - it has, or tries to, from $dev
has_read() {
	grep -q "^$(<"/sys/block/${dev#/dev/}/dev") .*rios=[1-9]" \
		"$CGROUPS/$1/io.stat"
}
