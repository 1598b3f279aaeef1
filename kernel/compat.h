/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Differences between the kernels that floop is built for, each with the
 * version that ended it, or the option.
 *
 * features.sh finds out which FLOOP_* to define, by compiling: distributions
 * backport changes. A kernel that has lm_open_conflict() calls it without a
 * check for NULL (FLOOP_LEASE_OPEN_CONFLICT).
 */
#ifndef FLOOP_COMPAT_H
#define FLOOP_COMPAT_H

#include <linux/blk-mq.h>
#include <linux/cgroup.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <linux/sched/mm.h>
#include <linux/version.h>

#include "features.gen"

/*
 * Until 6.14 (1e1a9cecfab3, "block: force noio scope in blk_mq_freeze_queue")
 * the caller has to keep allocations under a frozen queue from waiting for I/O
 * to that queue.
 */
static inline unsigned int floop_freeze_queue(struct request_queue *q)
{
#ifdef FLOOP_FREEZE_IS_NOIO
	return blk_mq_freeze_queue(q);
#else
	unsigned int memflags = memalloc_noio_save();

	blk_mq_freeze_queue(q);
	return memflags;
#endif
}

static inline void floop_unfreeze_queue(struct request_queue *q,
					unsigned int memflags)
{
#ifdef FLOOP_FREEZE_IS_NOIO
	blk_mq_unfreeze_queue(q, memflags);
#else
	blk_mq_unfreeze_queue(q);
	memalloc_noio_restore(memflags);
#endif
}

/* Until 6.17 struct file_kattr was struct fileattr. */
#ifdef FLOOP_FILE_KATTR
#define floop_fileattr	file_kattr
#else
#define floop_fileattr	fileattr
#endif

/* 7.0 has bdev_rot(), 7.1 has no bdev_nonrot(). */
static inline bool floop_bdev_rotational(struct block_device *bdev)
{
#ifdef FLOOP_BDEV_ROT
	return bdev_rot(bdev);
#else
	return !bdev_nonrot(bdev);
#endif
}

/*
 * Does ->fiemap() take the inode's lock? Until 6.16 ext4_fiemap() doesn't
 * (fiemap.c). No header tells, so this goes by the version: of a kernel with a
 * backport it says false, too.
 */
static inline bool floop_fiemap_takes_lock(const struct inode *inode)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 16, 0)
	return true;
#else
	return inode->i_sb->s_magic != EXT4_SUPER_MAGIC;
#endif
}

/* A kernel without cgroups has no struct cgroup_subsys_state to look into. */
static inline int floop_css_id(struct cgroup_subsys_state *css)
{
#ifdef CONFIG_CGROUPS
	return css->id;
#else
	return 0;
#endif
}

#endif /* FLOOP_COMPAT_H */
