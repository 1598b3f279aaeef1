// SPDX-License-Identifier: GPL-2.0
/*
 * Close an image at the last close of its device. The block layer holds the
 * disk's open_mutex then, which every open of the device takes, and the guard
 * may be in the middle of an fsync. So a worker waits for the guard, and the
 * device is free meanwhile.
 *
 * A task that detaches a device often unmounts the image's file system next, or
 * unloads the module. So it waits for the worker, too: for a limited time,
 * without any lock, and not if it is killed. It waits on its way back to user
 * space, where its closed files are released, and drops the last references to
 * the image's files there. If the image's file system was unmounted lazily, it
 * is unmounted before the task is back. Neither the task nor the worker has to
 * wait for the files of others (flush_delayed_fput()).
 */
#include <linux/anon_inodes.h>
#include <linux/blkdev.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/refcount.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/wait.h>

#include "attach.h"
#include "device.h"
#include "guard.h"
#include "image.h"

/* A disk that doesn't write a piece of an image in that time is broken. */
#define WAIT_MOST	(10 * HZ)

/* Wait here for a worker. Not in struct closing, which the waiter may free. */
static DECLARE_WAIT_QUEUE_HEAD(closed);

/**
 * struct closing - an image that is still in use
 * @image: the image
 * @file: its file
 * @sync_file: its other file, or NULL
 * @work: closes it
 * @refs: references of the work and of the task that waits for it; the last
 *	one to drop releases the files
 */
struct closing {
	struct floop_image *image;
	struct file *file;
	struct file *sync_file;
	struct delayed_work work;
	refcount_t refs;
};

static bool put_closing(struct closing *closing)
{
	if (!refcount_dec_and_test(&closing->refs))
		return false;
	if (closing->sync_file)
		fput(closing->sync_file);
	fput(closing->file);
	kfree(closing);
	return true;
}

static void close_work(struct work_struct *work)
{
	struct closing *closing = container_of(to_delayed_work(work),
					       struct closing, work);
	struct gendisk *disk = closing->image->dev->disk;

	floop_image_close(closing->image);
	put_disk(disk);
	/*
	 * The task that waits may unload the module next. floop_image_exit()
	 * waits for the rest of this work.
	 */
	module_put(THIS_MODULE);
	if (!put_closing(closing))
		wake_up_all(&closed);
}

static bool is_last(struct closing *closing)
{
	return refcount_read(&closing->refs) == 1;
}

/* An exiting task gets no more signals that would end its wait. */
static bool is_killed(void)
{
	return current->flags & PF_EXITING &&
	       (current->exit_code & 0x7f) == SIGKILL;
}

/* Runs when the file of wait_on_return() is released. */
static int wait_closed(struct inode *inode, struct file *file)
{
	struct closing *closing = file->private_data;

	/* A kernel thread releases others' files, too: don't delay them. */
	if (!(current->flags & PF_KTHREAD) && !is_killed())
		wait_event_killable_timeout(closed, is_last(closing),
					    WAIT_MOST);
	put_closing(closing);
	return 0;
}

static const struct file_operations wait_fops = {
	.owner	 = THIS_MODULE,
	.release = wait_closed,
};

/* Without memory for the file, don't wait. */
static void wait_on_return(struct closing *closing)
{
	struct file *file;

	file = anon_inode_getfile("[floop]", &wait_fops, closing, O_RDONLY);
	if (IS_ERR(file))
		put_closing(closing);
	else
		fput(file);
}

/**
 * floop_close() - close an image without waiting for its file system
 * @image: the image of a device that nobody has open; no I/O is in flight
 *
 * Context: Process context, with the disk's open_mutex held. Waits for the file
 * system only where there is no memory.
 */
void floop_close(struct floop_image *image)
{
	struct closing *closing;

	if (!floop_guard_quit(image)) {
		floop_image_close(image);
		return;
	}
	closing = kzalloc(sizeof(*closing), GFP_KERNEL);
	if (!closing) {
		floop_image_close(image);
		return;
	}
	closing->image = image;
	closing->file = get_file(image->file);
	if (image->sync_file)
		closing->sync_file = get_file(image->sync_file);
	refcount_set(&closing->refs, 2);
	INIT_DELAYED_WORK(&closing->work, close_work);
	/* The image refers to its device until it is closed. */
	get_device(disk_to_dev(image->dev->disk));
	/* This can't fail: the caller has the device open. */
	__module_get(THIS_MODULE);
	floop_background_queue(&closing->work, 0);
	wait_on_return(closing);
}
