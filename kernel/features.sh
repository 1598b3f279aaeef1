#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Usage: features.sh RELEASE COMMAND...: print a header with what the kernel
# has, for compat.h. COMMAND compiles for it: the compiler with the kernel's
# flags. Each feature is found by compiling a line that uses it, not by version:
# distributions backport. Fails, naming what is missing, if the kernel lacks
# something that floop needs.

set -eu
release=$1
shift
missing=

# compiles HEADER LINE: does that line compile in a function?
compiles()
{
	printf '#include <linux/%s>\nvoid f(void);\nvoid f(void) { %s }\n' \
		"$1" "$2" |
		eval "$command" -Wno-error \
			-Werror=implicit-function-declaration \
			-x c -c -o /dev/null - 2>&1
}

# needs WHAT HEADER LINE
needs()
{
	compiles "$2" "$3" > /dev/null || missing="$missing
  $1"
}

# has NAME HEADER LINE
has()
{
	if compiles "$2" "$3" > /dev/null; then
		printf '#define %s\n' "$1"
	fi
}

command=
for word; do
	command="$command '$(printf '%s' "$word" | sed "s/'/'\\\\''/g")'"
done

if ! said=$(compiles blkdev.h ''); then
	printf '%s\nfloop: nothing can be compiled for Linux %s\n' \
		"$said" "$release" >&2
	exit 1
fi

needs 'leases of their own type (6.9)' filelock.h \
	'struct file_lease *lease; (void)lease->fl_lmops->lm_breaker_owns_lease;'
needs 'blk_alloc_disk() with queue limits (6.9)' blkdev.h \
	'struct queue_limits lim; blk_alloc_disk(&lim, NUMA_NO_NODE);'
needs 'features as queue limits (6.11)' blkdev.h \
	'struct queue_limits lim = { .features = BLK_FEAT_NOWAIT }; (void)lim;'
needs 'the flags of file operations (6.10)' fs.h \
	'struct file_operations f; (void)(f.fop_flags & FOP_BUFFER_WASYNC);'
if [ -n "$missing" ]; then
	printf 'floop: Linux %s lacks what floop needs (6.12 has it):%s\n' \
		"$release" "$missing" >&2
	exit 1
fi

# Since 7.0: the kernel asks the lease itself about other openers when it is
# set, without a check for NULL.
has FLOOP_LEASE_OPEN_CONFLICT filelock.h \
	'struct lease_manager_operations o; (void)o.lm_open_conflict;'
# Since 6.14, and in RHEL's 6.12: freezing a queue begins a NOIO scope.
has FLOOP_FREEZE_IS_NOIO blk-mq.h \
	'unsigned int f = blk_mq_freeze_queue(0); blk_mq_unfreeze_queue(0, f);'
# Since 7.0: bdev_rot(). From 7.1 on there is no bdev_nonrot() any more.
has FLOOP_BDEV_ROT blkdev.h 'bdev_rot(0);'
