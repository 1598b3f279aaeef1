#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Usage: features.sh RELEASE COMMAND...: print a header with what the kernel
# has, for compat.h. COMMAND compiles for it: the compiler with the kernel's
# flags. Each feature is found by compiling a line that uses it, not by version:
# distributions backport. Where the line doesn't compile, the compiler has to
# say the word that the kernel lacks. Fails, naming what is missing, if the
# kernel lacks something that floop needs, and with what the compiler says, if
# that is something else.

set -eu
release=$1
shift
missing=
# The compiler's words
export LC_ALL=C

# broken: what doesn't compile says nothing about the kernel.
broken()
{
	printf '%s\nfloop: cannot compile for Linux %s\n' "$said" "$release" >&2
	exit 1
}

# compiles HEADERS LINE: does that line compile in a function? What the compiler
# says is in $said. Nothing is written: as root, some programs would remove
# /dev/null, and with -gsplit-dwarf there is a second file.
compiles()
{
	# shellcheck disable=SC2086 # several headers
	said=$({
		printf '#include <linux/%s>\n' $1
		printf 'void f(void);\nvoid f(void) { %s }\n' "$2"
	} |
		eval "$command" -Wno-error \
			-Werror=implicit-function-declaration \
			-fno-diagnostics-show-caret \
			-x c -fsyntax-only - 2>&1)
}

# lacks WORD HEADERS LINE: does that line not compile, for want of that word?
lacks()
{
	! compiles "$2" "$3" || return 1
	printf '%s\n' "$said" | grep -Eq "error: .*($1)" || broken
}

# needs WHAT WORD HEADERS LINE
needs()
{
	! lacks "$2" "$3" "$4" || missing="$missing
  $1"
}

# has NAME WORD HEADERS LINE
has()
{
	lacks "$2" "$3" "$4" || printf '#define %s\n' "$1"
}

command=
for word; do
	command="$command '$(printf '%s' "$word" | sed "s/'/'\\\\''/g")'"
done

compiles blkdev.h '' || broken

needs 'leases of their own type (6.9)' 'struct file_lease|filelock\.h' \
	filelock.h \
	'struct file_lease *lease; (void)lease->fl_lmops->lm_breaker_owns_lease;'
needs 'file locks (CONFIG_FILE_LOCKING)' 'locks_alloc_lease|filelock\.h' \
	filelock.h 'locks_alloc_lease();'
needs 'blk_alloc_disk() with queue limits (6.9)' blk_alloc_disk blkdev.h \
	'struct queue_limits lim; blk_alloc_disk(&lim, NUMA_NO_NODE);'
needs 'features as queue limits (6.11)' 'features|BLK_FEAT_NOWAIT' blkdev.h \
	'struct queue_limits lim = { .features = BLK_FEAT_NOWAIT }; (void)lim;'
needs 'the flags of file operations (6.10)' 'fop_flags|FOP_BUFFER_WASYNC' fs.h \
	'struct file_operations f; (void)(f.fop_flags & FOP_BUFFER_WASYNC);'
if [ -n "$missing" ]; then
	printf 'floop: Linux %s lacks what floop needs (6.12 has it):%s\n' \
		"$release" "$missing" >&2
	exit 1
fi

# Since 7.0: the kernel asks the lease itself about other openers when it is
# set, without a check for NULL.
has FLOOP_LEASE_OPEN_CONFLICT lm_open_conflict filelock.h \
	'struct lease_manager_operations o; (void)o.lm_open_conflict;'
# Since 6.14, and in RHEL's 6.12: freezing a queue begins a NOIO scope.
has FLOOP_FREEZE_IS_NOIO blk_mq_unfreeze_queue blk-mq.h \
	'blk_mq_unfreeze_queue(0, blk_mq_freeze_queue(0));'
# Since 6.17: the attributes of a file have another name.
has FLOOP_FILE_KATTR file_kattr 'fs.h fileattr.h' \
	'struct file_kattr *a = 0; (void)a->fsx_xflags;'
# Since 7.0: bdev_rot(). From 7.1 on there is no bdev_nonrot() any more.
has FLOOP_BDEV_ROT bdev_rot blkdev.h 'bdev_rot(0);'
