// SPDX-License-Identifier: GPL-2.0
/*
 * The lease, which notices every other opener of the image and every change of
 * it, and the driver's own descriptors. Every other descriptor counts as
 * somebody else's, that of LOOP_CONFIGURE, too: its process may keep it.
 *
 * It is a layout lease (FL_LAYOUT). A file system that hands out block layouts
 * (of those that are mapped, xfs) breaks it before it moves a file's blocks,
 * whatever descriptor, path or thread the change comes from. Opens, truncate(2)
 * and notify_change() break leases of other kinds. But leases_conflict() first
 * calls lm_breaker_owns_lease() of every lease of the inode, whatever kind is
 * being broken. So this one lease notices them all, and they neither wait for
 * it nor are refused.
 */
#include <linux/cred.h>
#include <linux/delay.h>
#include <linux/fcntl.h>
#include <linux/file.h>
#include <linux/filelock.h>
#include <linux/fs.h>
#include <linux/hash.h>
#include <linux/jiffies.h>

#include "compat.h"
#include "fs.h"
#include "guard.h"
#include "image.h"
#include "lane.h"
#include "lease.h"
#include "rules.h"
#include "unshare.h"

/* Attempts to get the inode's lock, which our own writes take, too. */
#define LOCK_TRIES	50

/* After that time a task that was told to wait is past the lease. */
#define TOLD_LASTS	(60 * HZ)

/**
 * floop_lease_readers() - how often others have the image open to read only
 * @image: the image
 *
 * Context: Any.
 * Return: how often; 0 for a block device.
 */
unsigned int floop_lease_readers(struct floop_image *image)
{
	int readers;

	if (image->is_bdev)
		return 0;
	readers = atomic_read(&file_inode(image->file)->i_readcount);
	/* Ours is @sync_file, or @file of a read-only device, maybe both. */
	return max(readers - (image->sync_file || image->read_only), 0);
}

static bool has_other_writers(struct floop_image *image)
{
	/* Ours is @file, unless the device is read-only. */
	return atomic_read(&file_inode(image->file)->i_writecount) >
	       !image->read_only;
}

/**
 * floop_lease_has_others() - does anybody else have the image open?
 * @image: the image, a file
 *
 * Context: Any.
 * Return: true if somebody does, to read or to write.
 */
bool floop_lease_has_others(struct floop_image *image)
{
	return has_other_writers(image) || floop_lease_readers(image);
}

/*
 * Does anybody else have the image open, who could change it unnoticed? On xfs
 * that is somebody who may write: what a reader can do there (clone the image)
 * breaks layouts. Elsewhere a reader of a writable image counts, too.
 */
static bool is_opened(struct floop_image *image)
{
	return has_other_writers(image) ||
	       (image->guard.readers_end && floop_lease_readers(image));
}

/*
 * A task that has been told to wait for a lease may wake up late and find the
 * next lease in its place, for epochs begin after 10 ms. __break_lease() waits
 * for the next lease as well, but doesn't have it broken. So the guard
 * remembers the task. Two tasks may share a bit: then one of them ends an epoch
 * needlessly.
 */
static unsigned long bit_of_current(void)
{
	return BIT(hash_ptr(current, ilog2(BITS_PER_LONG)));
}

/*
 * Called when somebody is about to break a lease of the image's inode, in their
 * context and under flc_lock. do_dentry_open() and, for a change of the size,
 * get_write_access() have counted them already. An uncounted task changes an
 * attribute, or tries to: notify_change() checks permission only afterwards.
 *
 * Our own writes and changes through the file system break layout leases, too.
 * The guard knows of them; true lets them pass.
 */
static bool lease_noticed(struct file_lease *lease)
{
	struct floop_image *image = lease->c.flc_owner;
	struct floop_guard *guard = &image->guard;

	if (READ_ONCE(guard->probe) == current) {
		guard->probed = true;
		return true;
	}
	if (floop_worker_serves(image) || floop_unshare_serves(image))
		return true;
	if (!floop_rule_holds(FLOOP_RULE_NOTICE))
		return false;
	if (is_opened(image) || guard->told & bit_of_current())
		floop_guard_break(image, current);
	/*
	 * A writer could exchange blocks now, or write where a chunk has
	 * zeroes: make it wait. The kernel checks the lease's kind after this
	 * call, so opens conflict from here on.
	 */
	if (floop_hold_is_partial(guard)) {
		lease->c.flc_flags &= ~FL_LAYOUT;
		lease->c.flc_flags |= FL_LEASE;
	}
	return false;
}

/*
 * Somebody changes the file's blocks, or writes to it. Most changes call
 * inode_dio_wait() next, and wait there until mapped I/O in flight has ended.
 * An atomic write on xfs doesn't (xfs_file_dio_write_atomic(), since 6.16). If
 * the file can have one, all wait until drain_work() has dropped the lease; and
 * while a chunk is in flight, for that needs the lease.
 * fl_break_time is 0 so that they wait without a limit: after it the kernel
 * would remove the lease. FL_UNLOCK_PENDING is cleared so that the next one
 * comes here, too.
 *
 * Called under flc_lock. Returns true to drop the lease at once.
 */
static bool lease_break(struct file_lease *lease)
{
	struct floop_image *image = lease->c.flc_owner;
	struct floop_guard *guard = &image->guard;

	if (!floop_rule_holds(FLOOP_RULE_LAYOUT))
		return true;
	if (!floop_guard_break(image, current))
		return true;
	if ((!(image->file->f_mode & FMODE_CAN_ATOMIC_WRITE) ||
	     !floop_rule_holds(FLOOP_RULE_ATOMIC)) &&
	    !(lease->c.flc_flags & FL_LEASE) && !floop_hold_is_partial(guard))
		return true;
	lease->fl_break_time = 0;
	lease->c.flc_flags &= ~FL_UNLOCK_PENDING;
	guard->told |= bit_of_current();
	guard->told_at = jiffies;
	return false;
}

#ifdef FLOOP_LEASE_OPEN_CONFLICT
/* floop_lease_take() looks for other openers itself. */
static int no_open_conflict(struct file *file, int type)
{
	return 0;
}
#endif

static const struct lease_manager_operations lease_ops = {
	.lm_break		= lease_break,
	.lm_change		= lease_modify,
	.lm_breaker_owns_lease	= lease_noticed,
#ifdef FLOOP_LEASE_OPEN_CONFLICT
	.lm_open_conflict	= no_open_conflict,
#endif
};

static int set_lease(struct floop_image *image)
{
	struct file_lease *lease = locks_alloc_lease();
	struct floop_guard *guard = &image->guard;
	int err;

	/* Without a lease, nobody is told to wait now. */
	if (time_after(jiffies, guard->told_at + TOLD_LASTS))
		guard->told = 0;

	if (!lease)
		return -ENOMEM;
	lease->fl_lmops = &lease_ops;
	lease->c.flc_flags = FL_LAYOUT;
	lease->c.flc_type = F_RDLCK;
	lease->c.flc_owner = image;
	lease->c.flc_pid = current->tgid;
	lease->c.flc_file = image->file;
	/* It may be broken as soon as it is granted. */
	err = vfs_setlease(image->file, F_RDLCK, &lease, NULL);
	/* NULL if the file system has taken it. */
	if (lease)
		locks_free_lease(lease);
	return err;
}

/**
 * floop_lease_drop() - drop the lease
 * @image: the image, with a lease or without one
 *
 * Calls kernel_setlease(): vfs_setlease() checks whether the caller may have
 * leases, and the task that detaches may lack that right. Afterwards nobody
 * finds the image by its inode.
 *
 * Context: Process context. May sleep, but waits for neither I/O nor memory.
 */
void floop_lease_drop(struct floop_image *image)
{
	void *owner = image;

	if (!image->is_bdev)
		kernel_setlease(image->file, F_UNLCK, NULL, &owner);
}

/*
 * Does this kernel call the lease when somebody opens the file? Mapping depends
 * on it, so make the call that an open makes. It breaks no lease: an open to
 * read conflicts with exclusive leases only.
 */
static bool notices_openers(struct floop_image *image)
{
	struct floop_guard *guard = &image->guard;

	guard->probed = false;
	WRITE_ONCE(guard->probe, current);
	break_lease(file_inode(image->file), O_RDONLY | O_NONBLOCK);
	WRITE_ONCE(guard->probe, NULL);
	return guard->probed;
}

/*
 * A change that had passed the check for leases before ours was taken holds the
 * inode's lock exclusively until it is done, or is counted. Don't wait for the
 * lock: its owner may wait for us. Our own direct I/O shares it.
 */
static bool nobody_is_inside(struct floop_image *image)
{
	struct inode *inode = file_inode(image->file);
	int tries;

	for (tries = 0; tries < LOCK_TRIES; tries++) {
		if (inode_trylock_shared(inode)) {
			inode_unlock_shared(inode);
			return true;
		}
		if (is_opened(image))
			return false;
		usleep_range(20, 200);
	}
	return false;
}

/**
 * floop_lease_take() - take the lease, and look for other openers
 * @image: the image
 *
 * An open is counted before it looks for leases (do_dentry_open()), and we look
 * at the counts after our lease is there to be found: generic_add_lease() has
 * the barrier.
 *
 * Context: Process context. Sleeps. floop_guard_break() may be called at once.
 * Return: %FLOOP_UNMAPPED_NOT, or why not; then the caller calls
 * floop_lease_drop().
 */
enum floop_unmapped floop_lease_take(struct floop_image *image)
{
	int err;

	if (!floop_rule_holds(FLOOP_RULE_LEASE))
		return FLOOP_UNMAPPED_NOT;
	err = set_lease(image);
	if (err == -EAGAIN)
		return FLOOP_UNMAPPED_OPENED;
	if (err || !notices_openers(image))
		return FLOOP_UNMAPPED_NO_LEASES;
	floop_window(FLOOP_WINDOW_BEGIN);
	if (!nobody_is_inside(image) || is_opened(image))
		return FLOOP_UNMAPPED_OPENED;
	return FLOOP_UNMAPPED_NOT;
}

/**
 * floop_lease_open() - open an image for the driver alone
 * @file: the file from userspace
 * @read_only: whether the device is read-only
 *
 * Context: Process context, with the credentials of the task that attaches. May
 * sleep.
 * Return: a file of our own; ERR_PTR() if the file can't be mapped anyway, or
 * can't be opened.
 */
struct file *floop_lease_open(struct file *file, bool read_only)
{
	int flags = file->f_flags & (O_DIRECT | O_DSYNC | O_NOATIME);

	if (!floop_fs_is_supported(file))
		return ERR_PTR(-EINVAL);
	flags |= O_LARGEFILE | (read_only ? O_RDONLY : O_RDWR);
	return dentry_open(&file->f_path, flags, current_cred());
}

/**
 * floop_lease_open_sync() - open an image for what the guard does by itself
 * @file: the file from floop_lease_open()
 *
 * A descriptor reports an error of write-back once. The guard's fsyncs must not
 * consume an error that the device's flushes have to report. What is done by
 * this descriptor doesn't change the content, nor the file's times.
 *
 * Context: Process context, with the credentials of the task that attaches. May
 * sleep.
 * Return: a file of our own, or ERR_PTR().
 */
struct file *floop_lease_open_sync(struct file *file)
{
	struct file *sync = dentry_open(&file->f_path, O_LARGEFILE | O_RDONLY,
					current_cred());

	if (!IS_ERR(sync))
		sync->f_mode |= FMODE_NOCMTIME;
	return sync;
}
