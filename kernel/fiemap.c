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
 * No header tells, so it is tried, once. Whoever calls ->fiemap() while another
 * task has the lock for itself waits for it, or takes none.
 */
#include <linux/completion.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/workqueue.h>

#include "compat.h"
#include "fiemap.h"

/* How long to wait for a call that may wait for the lock, and how often. */
#define PATIENCE	(HZ / 10)
#define TRIES		5

/* Of ext4: it takes no lock. Otherwise it isn't called. */
static bool takes_no_lock;
static unsigned int tries;

/* A call that has @ended. */
struct trial {
	struct work_struct work;
	struct completion ended;
	struct inode *inode;
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
 * floop_fiemap_is_untried() - can it be found out whether it may be called?
 * @inode: the inode of a file on ext4 or xfs
 *
 * Context: Any.
 * Return: true if floop_fiemap_try() should be called.
 */
bool floop_fiemap_is_untried(const struct inode *inode)
{
	return !floop_fiemap_is_safe(inode) && READ_ONCE(tries) < TRIES;
}

static void trial_work(struct work_struct *work)
{
	struct trial *trial = container_of(work, struct trial, work);
	struct inode *inode = trial->inode;
	struct fiemap_extent_info count = { };

	inode->i_op->fiemap(inode, &count, 0, i_blocksize(inode));
	complete(&trial->ended);
}

/**
 * floop_fiemap_try() - find out whether ->fiemap() may be called
 * @file: a file on ext4
 *
 * Not if somebody has the lock now. Calls of a disk that is slow may take too
 * long to be told from those that wait, so it gives up after some.
 *
 * Context: Process context. Sleeps as long as ->fiemap() takes. Holds the
 * inode's lock for a tenth of a second at most.
 */
void floop_fiemap_try(struct file *file)
{
	struct inode *inode = file_inode(file);
	struct trial trial = {
		.inode = inode,
		.ended = COMPLETION_INITIALIZER_ONSTACK(trial.ended),
	};

	if (!inode_trylock(inode))
		return;
	INIT_WORK_ONSTACK(&trial.work, trial_work);
	/* Nothing that a suspend freezes: who waits for it is frozen itself. */
	queue_work(system_long_wq, &trial.work);
	if (wait_for_completion_timeout(&trial.ended, PATIENCE))
		WRITE_ONCE(takes_no_lock, true);
	else
		WRITE_ONCE(tries, tries + 1);
	inode_unlock(inode);
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
