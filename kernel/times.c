// SPDX-License-Identifier: GPL-2.0
/*
 * The image's times. Mapped writes bypass the file system, which would update
 * them. They are updated at a flush, at the end of an epoch, and when the image
 * is closed.
 */
#include <linux/fs.h>
#include <linux/sched/mm.h>

#include "image.h"
#include "times.h"

static void update_times(struct floop_image *image)
{
	struct super_block *sb = file_inode(image->file)->i_sb;
	unsigned int memflags;

	if (!READ_ONCE(image->times.due))
		return;
	/* Don't wait for a frozen file system: its times stay due. */
	if (!sb_start_write_trylock(sb))
		return;
	memflags = memalloc_noio_save();
	WRITE_ONCE(image->times.due, false);
	file_update_time(image->file);
	memalloc_noio_restore(memflags);
	sb_end_write(sb);
}

static void times_work(struct work_struct *work)
{
	update_times(container_of(to_delayed_work(work), struct floop_image,
				  times.work));
}

/**
 * floop_times_touch() - update the image's times in the background
 * @image: the image
 *
 * Context: Any.
 */
void floop_times_touch(struct floop_image *image)
{
	if (!image->is_bdev && READ_ONCE(image->times.due))
		floop_background_queue(&image->times.work, 0);
}

/**
 * floop_times_sync() - update the image's times
 * @image: the image; no mapped I/O is in flight
 *
 * The caller may be a work of the queue that times_work() is on, and doesn't
 * wait for a place in it: as many closes at a time as it has places would wait
 * for ever.
 *
 * Context: Process context. Sleeps.
 */
void floop_times_sync(struct floop_image *image)
{
	cancel_delayed_work_sync(&image->times.work);
	if (!image->is_bdev)
		update_times(image);
}

/**
 * floop_times_init_image() - prepare an image's times
 * @image: the image
 *
 * Context: Process context.
 */
void floop_times_init_image(struct floop_image *image)
{
	INIT_DELAYED_WORK(&image->times.work, times_work);
}

/**
 * floop_times_exit_image() - undo floop_times_init_image()
 * @image: the image; no I/O is in flight, and none comes
 *
 * The file system may have been frozen when mapping ended. If it still is, the
 * times stay as they are.
 *
 * Context: Process context. Sleeps.
 */
void floop_times_exit_image(struct floop_image *image)
{
	floop_times_sync(image);
}
