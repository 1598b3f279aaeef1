// SPDX-License-Identifier: GPL-2.0
/*
 * Letting go of an image at the last close of its device. The block layer holds
 * the disk's open_mutex there, for which everybody waits who looks at the
 * device, and the guard may be in the middle of an fsync. So a worker waits for
 * that, and the device is free meanwhile.
 *
 * Who detaches a device unmounts the image's file system next, or the module
 * goes. They wait for the worker, too, but only for a while, without any lock, and
 * if they let themselves be killed: on their way back to user space, where the
 * files that they have closed are released. They are the last to let go of the
 * image's files. If that unmounts its file system, because it was unmounted lazily,
 * it is done before they are back; and neither they nor the worker have to wait
 * for files of others (flush_delayed_fput()).
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
#include "names.h"

/* A disk that has not written a piece of an image by then is out of order. */
#define WAIT_MOST	(10 * HZ)

/* Where to wait for a worker. Not in struct closing: who has waited frees that. */
static DECLARE_WAIT_QUEUE_HEAD(closed);

/**
 * struct closing - an image that is still in use
 * @image: the image
 * @file: its file
 * @sync_file: its other file, or NULL
 * @work: waits until it isn't
 * @refs: the work, and whoever waits for it; the last one releases the files
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
	 * Who waits may unload the module next. floop_image_exit() waits for the
	 * rest of this.
	 */
	module_put(THIS_MODULE);
	if (!put_closing(closing))
		wake_up_all(&closed);
}

static bool is_last(struct closing *closing)
{
	return refcount_read(&closing->refs) == 1;
}

/* Who has been killed, and exits by now, hears of no other signal. */
static bool is_killed(void)
{
	return current->flags & PF_EXITING &&
	       (current->exit_code & 0x7f) == SIGKILL;
}

/* The release of a file that has been made for that. */
static int wait_closed(struct inode *inode, struct file *file)
{
	struct closing *closing = file->private_data;

	/* A kernel thread goes on to release other files. */
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

/* Without memory for the file nobody waits. */
static void wait_on_return(struct closing *closing)
{
	struct file *file;

	file = anon_inode_getfile("[" FLOOP_NAME "]", &wait_fops, closing,
				  O_RDONLY);
	if (IS_ERR(file))
		put_closing(closing);
	else
		fput(file);
}

/**
 * floop_close() - let go of an image without waiting for its file system
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
	/* The image keeps to its device until it is closed. */
	get_device(disk_to_dev(image->dev->disk));
	/* The caller's, who has the device open, is there as well. */
	__module_get(THIS_MODULE);
	floop_background_queue(&closing->work, 0);
	wait_on_return(closing);
}
