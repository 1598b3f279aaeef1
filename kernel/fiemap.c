// SPDX-License-Identifier: GPL-2.0
/*
 * ->fiemap() with the inode's lock. Until 6.16 (ext4: prevent stale extent
 * cache entries caused by concurrent fiemap) ext4_fiemap() takes none. If a
 * truncate or a punch of many extents runs meanwhile, ext4 may remember extents
 * that it then frees, and use them afterwards. So we take the lock, as
 * ext4_fiemap() does since then.
 *
 * But in a kernel with a backport it takes the lock, too. The second time could
 * wait for ever: for a writer that waits for us to release it the first time.
 * No header tells, so it is tried. Whoever calls ->fiemap() while another task
 * has the lock for itself waits for it, or takes none. It is the root directory
 * that is tried: nobody truncates it, and it is in memory.
 */
#include <linux/completion.h>
#include <linux/dcache.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/jiffies.h>
#include <linux/rwsem.h>
#include <linux/sched/mm.h>
#include <linux/workqueue.h>

#include "compat.h"
#include "fiemap.h"

/* How long to wait for a call that may wait for the lock, and how often. */
#define PATIENCE	(HZ / 10)
#define TRIES		5
/* Until the next trial, if this one hasn't told. */
#define PAUSE		(10 * HZ)

/* Of ext4: it takes no lock. Otherwise it isn't called. */
static bool takes_no_lock;
/* How many calls have waited for the lock. */
static unsigned int waited;
static unsigned long tried_at;

/* A call that has @ended, or not. */
struct trial {
	struct work_struct work;
	struct completion ended;
	struct inode *inode;
	int err;
};

/**
 * floop_fiemap_is_safe() - may ->fiemap() be called?
 * @inode: the inode of a file on ext4 or xfs
 *
 * Context: Any.
 * Return: false if it may do harm, or wait for ever.
 */
bool floop_fiemap_is_safe(const struct inode *inode)
{
	return floop_fiemap_takes_lock(inode) || READ_ONCE(takes_no_lock);
}

/**
 * floop_fiemap_is_untried() - is it time to find out whether it may be called?
 * @inode: the inode of a file on ext4 or xfs
 *
 * Context: Any.
 * Return: true if floop_fiemap_try() should be called.
 */
bool floop_fiemap_is_untried(const struct inode *inode)
{
	unsigned long last = READ_ONCE(tried_at);

	return !floop_fiemap_is_safe(inode) && READ_ONCE(waited) < TRIES &&
	       (!last || time_after(jiffies, last + PAUSE));
}

static void trial_work(struct work_struct *work)
{
	struct trial *trial = container_of(work, struct trial, work);
	struct inode *inode = trial->inode;
	struct fiemap_extent_info count = { };
	unsigned int memflags;

	/* As the fill: it may be for a device that is being swapped to. */
	memflags = memalloc_noio_save();
	trial->err = inode->i_op->fiemap(inode, &count, 0, i_blocksize(inode));
	memalloc_noio_restore(memflags);
	complete(&trial->ended);
}

/**
 * floop_fiemap_try() - find out whether ->fiemap() may be called
 * @file: a file on ext4
 *
 * Not if somebody has the root directory's lock now. A call that takes long for
 * another reason tells nothing, nor does one that fails.
 *
 * Context: Process context. Sleeps as long as ->fiemap() takes. Holds the lock
 * of the root directory for a tenth of a second at most.
 */
void floop_fiemap_try(struct file *file)
{
	struct inode *root = d_inode(file_inode(file)->i_sb->s_root);
	struct trial trial = {
		.inode = root,
		.ended = COMPLETION_INITIALIZER_ONSTACK(trial.ended),
	};

	if (root->i_op->fiemap != file_inode(file)->i_op->fiemap ||
	    !inode_trylock(root))
		return;
	WRITE_ONCE(tried_at, jiffies ?: 1);
	INIT_WORK_ONSTACK(&trial.work, trial_work);
	/* Nothing that a suspend freezes: who waits for it is frozen itself. */
	queue_work(system_long_wq, &trial.work);
	if (!wait_for_completion_timeout(&trial.ended, PATIENCE)) {
		if (rwsem_is_contended(&root->i_rwsem))
			WRITE_ONCE(waited, waited + 1);
	} else if (!trial.err) {
		WRITE_ONCE(takes_no_lock, true);
	}
	inode_unlock(root);
	flush_work(&trial.work);
	destroy_work_on_stack(&trial.work);
}

/**
 * floop_fiemap() - call ->fiemap()
 * @inode: the inode; floop_fiemap_is_safe() says so
 * @info: what is asked for
 * @pos: from where on, in bytes
 * @size: how much of the file, in bytes
 *
 * Context: Process context. Takes the inode's lock, shared.
 * Return: 0 or the file system's error.
 */
int floop_fiemap(struct inode *inode, struct fiemap_extent_info *info, u64 pos,
		 u64 size)
{
	bool lock = !floop_fiemap_takes_lock(inode);
	int err;

	if (lock)
		inode_lock_shared(inode);
	err = inode->i_op->fiemap(inode, info, pos, size);
	if (lock)
		inode_unlock_shared(inode);
	return err;
}
