// SPDX-License-Identifier: GPL-2.0
/*
 * Who else has the image open: the driver's own descriptor, which is the only one
 * that is not somebody else's (what came with LOOP_CONFIGURE belongs to a process
 * that may keep it), and the leases that every other opener has to break.
 */
#include <linux/cred.h>
#include <linux/delay.h>
#include <linux/fcntl.h>
#include <linux/file.h>
#include <linux/filelock.h>
#include <linux/fs.h>

#include "compat.h"
#include "guard.h"
#include "image.h"
#include "lease.h"
#include "rules.h"

#define LEASE_TRIES	50

static bool is_xfs(struct inode *inode)
{
	return !strcmp(inode->i_sb->s_type->name, "xfs");
}

/* File systems whose every change of a file's blocks waits as it has to. */
static bool is_known(struct inode *inode)
{
	return is_xfs(inode) || !strcmp(inode->i_sb->s_type->name, "ext4");
}

/**
 * floop_lease_is_known() - can a lease make the file's mapping safe?
 * @file: what userspace handed in
 *
 * Return: whether it is a file of a file system that the guard knows, and not of
 * one on top of it.
 */
bool floop_lease_is_known(struct file *file)
{
	struct inode *inode = file->f_mapping->host;

	return S_ISREG(inode->i_mode) && inode == file_inode(file) &&
	       is_known(inode);
}

/* Leases of one owner would be one lease. */
static void *owner_of(struct floop_image *image, unsigned int flags)
{
	return flags & FL_LAYOUT ? (void *)&image->guard : image;
}

/*
 * True: the lease is gone at once, and the opener goes on. One with O_NONBLOCK is
 * refused (__break_lease()) if there is any lease left, the layout lease included,
 * so that goes as well. It was there first: it isn't what the loop that calls us
 * comes to next.
 */
static bool lease_break(struct file_lease *lease)
{
	bool is_layout = lease->c.flc_flags & FL_LAYOUT;
	struct floop_image *image = is_layout ?
		container_of(lease->c.flc_owner, struct floop_image, guard) :
		lease->c.flc_owner;
	struct floop_guard *guard = &image->guard;

	floop_guard_break(image);
	if (guard->layout && !is_layout)
		lease_modify(guard->layout, F_UNLCK, &guard->broken_leases);
	guard->layout = NULL;
	return true;
}

#ifdef FLOOP_LEASE_OPEN_CONFLICT
/* We look for other openers ourselves: see take_open_lease(). */
static int no_open_conflict(struct file *file, int type)
{
	return 0;
}
#endif

static const struct lease_manager_operations lease_ops = {
	.lm_break	= lease_break,
	.lm_change	= lease_modify,
#ifdef FLOOP_LEASE_OPEN_CONFLICT
	.lm_open_conflict = no_open_conflict,
#endif
};

static int take_lease(struct floop_image *image, unsigned int flags)
{
	struct file_lease *lease = locks_alloc_lease();
	struct floop_guard *guard = &image->guard;
	int type = image->read_only ? F_RDLCK : F_WRLCK;
	int err;

	if (!lease)
		return -ENOMEM;
	lease->fl_lmops = &lease_ops;
	lease->c.flc_flags = flags;
	lease->c.flc_type = type;
	lease->c.flc_owner = owner_of(image, flags);
	lease->c.flc_pid = current->tgid;
	lease->c.flc_file = image->file;
	/* From when it is granted on, it may be broken. */
	if (flags & FL_LAYOUT)
		guard->layout = lease;
	err = vfs_setlease(image->file, type, &lease, NULL);
	if (err && (flags & FL_LAYOUT))
		guard->layout = NULL;
	/* It is ours no more if the file system took it. */
	if (lease)
		locks_free_lease(lease);
	return err;
}

static void give_lease_back(struct floop_image *image, unsigned int flags)
{
	void *owner = owner_of(image, flags);

	vfs_setlease(image->file, F_UNLCK, NULL, &owner);
}

/**
 * floop_leases_give_back() - let others open the image without our notice
 * @image: the image; whether there are leases on it or not
 *
 * Context: Process context. May sleep.
 */
void floop_leases_give_back(struct floop_image *image)
{
	struct floop_guard *guard = &image->guard;
	struct file_lock_core *lease, *next;
	LIST_HEAD(broken);

	if (image->is_bdev)
		return;
	/* In this order: from the first on, nobody looks for the second. */
	give_lease_back(image, FL_DELEG);
	give_lease_back(image, FL_LAYOUT);
	guard->layout = NULL;
	spin_lock(&guard->lock);
	list_splice_init(&guard->broken_leases, &broken);
	spin_unlock(&guard->lock);
	list_for_each_entry_safe(lease, next, &broken, flc_list) {
		list_del_init(&lease->flc_list);
		locks_free_lease(container_of(lease, struct file_lease, c));
	}
}

/* Has anybody else the image open, for anything that matters? */
static bool is_opened(struct floop_image *image)
{
	struct inode *inode = file_inode(image->file);

	if (image->read_only)
		return inode_is_open_for_write(inode);
	return atomic_read(&inode->i_writecount) != 1 ||
	       atomic_read(&inode->i_readcount);
}

/*
 * A delegation is a lease that is broken by more: every open breaks it, and so
 * does notify_change(), which overlayfs and nfsd call to truncate a file without
 * opening it. For a device that is written to it excludes every other opener; a
 * read-only device shares the image with other readers.
 *
 * It is refused while anyone holds the inode's lock, our own I/O included.
 */
static int take_open_lease(struct floop_image *image)
{
	int tries, err;

	for (tries = 0; tries < LEASE_TRIES; tries++) {
		err = take_lease(image, FL_DELEG);
		if (err != -EAGAIN || is_opened(image))
			break;
		usleep_range(20, 200);
	}
	/*
	 * Who opens the image counts as an opener before it looks for leases
	 * (do_dentry_open()), and we look after ours is there to be found:
	 * generic_add_lease() has the barrier.
	 */
	if (!err && is_opened(image))
		err = -EAGAIN;
	return err;
}

/**
 * floop_leases_take() - have other openers of the image break a lease first
 * @image: the image
 *
 * On xfs a reader may have the image's blocks exchanged for others with the same
 * content (FIDEDUPERANGE asks for no more than permission to write): that breaks
 * a layout lease first, and keeps the inode's lock from there on. Hence the order:
 * the other lease isn't granted under that lock.
 *
 * Context: Process context. Sleeps. floop_guard_break() may be called at once.
 * Return: %FLOOP_UNMAPPED_NOT, or why not; then floop_leases_give_back() is due.
 */
enum floop_unmapped floop_leases_take(struct floop_image *image)
{
	int err = 0;

	if (!floop_rule_holds(FLOOP_RULE_LEASE))
		return FLOOP_UNMAPPED_NOT;
	if (image->read_only && is_xfs(file_inode(image->file)) &&
	    floop_rule_holds(FLOOP_RULE_LAYOUT))
		err = take_lease(image, FL_LAYOUT);
	if (!err)
		err = take_open_lease(image);
	switch (err) {
	case 0:
		return FLOOP_UNMAPPED_NOT;
	case -EAGAIN:
		return FLOOP_UNMAPPED_OPENED;
	default:
		return FLOOP_UNMAPPED_NO_LEASES;
	}
}

/**
 * floop_lease_open() - open an image for the driver alone
 * @file: what userspace handed in
 * @read_only: the device is
 *
 * Context: Process context, as who attaches it. May sleep.
 * Return: a file of our own; ERR_PTR() where that makes no difference (it is none
 * that can be mapped), or can't be had.
 */
struct file *floop_lease_open(struct file *file, bool read_only)
{
	int flags = file->f_flags & (O_DIRECT | O_DSYNC | O_NOATIME);

	if (!floop_lease_is_known(file))
		return ERR_PTR(-EINVAL);
	flags |= O_LARGEFILE | (read_only ? O_RDONLY : O_RDWR);
	return dentry_open(&file->f_path, flags, current_cred());
}
