// SPDX-License-Identifier: GPL-2.0
/*
 * Calls of the file system's ->write_iter() that haven't returned. xfs may have
 * decided, by a flag of a file that shares blocks, to write a part of a block
 * through the page cache, and have let go of the inode's lock since, to take it
 * anew. Such a write is neither direct I/O in flight nor in the page cache. If
 * the flag goes away meanwhile, it collides with direct and with mapped writes
 * to the rest of its block: what it has read of the block is written over them.
 * (ext4 does likewise in a hole of a file without extents.) So
 *  - what has been looked up goes into the map when the calls have ended that
 *    there were at the last answer;
 *  - while the fill has xfs take the flag away, no such call begins, and the
 *    ones before have ended.
 *
 * Calls begin on one of two sides. When all those of the other side have ended,
 * the sides can change. After two changes all calls from before have ended,
 * whatever has begun since.
 */
#include <linux/delay.h>
#include <linux/fs.h>

#include "calls.h"
#include "image.h"

/* How long to wait for calls to end. Most return in less than a millisecond. */
#define PATIENCE	(HZ / 10)
/* So many looks come soon one after the other. */
#define SOON		20

/**
 * floop_calls_init_image() - prepare to count an image's calls
 * @image: the image
 *
 * Context: Any.
 */
void floop_calls_init_image(struct floop_image *image)
{
	spin_lock_init(&image->calls.lock);
	init_waitqueue_head(&image->calls.unparked);
}

static bool is_part(struct floop_image *image, loff_t pos, size_t bytes)
{
	return (pos | bytes) & (i_blocksize(file_inode(image->file)) - 1);
}

/**
 * floop_calls_begin() - before ->write_iter() is called
 * @image: the image
 * @pos: where it writes, in bytes of the file
 * @bytes: how much
 * @wait: it may sleep
 *
 * Context: A worker of the image. Sleeps with @wait while writes of a part of a
 * block are parked.
 * Return: the side, for floop_calls_end(); -EAGAIN if it would sleep.
 */
int floop_calls_begin(struct floop_image *image, loff_t pos, size_t bytes,
		      bool wait)
{
	struct floop_calls *calls = &image->calls;
	int side;

	spin_lock(&calls->lock);
	while (unlikely(calls->parked) && is_part(image, pos, bytes)) {
		spin_unlock(&calls->lock);
		if (!wait)
			return -EAGAIN;
		wait_event(calls->unparked, !READ_ONCE(calls->parked));
		spin_lock(&calls->lock);
	}
	side = calls->turns & 1;
	atomic_inc(&calls->inside[side]);
	spin_unlock(&calls->lock);
	return side;
}

/**
 * floop_calls_end() - after ->write_iter() has returned
 * @image: the image
 * @side: from floop_calls_begin()
 *
 * Context: Process context. Doesn't sleep.
 */
void floop_calls_end(struct floop_image *image, int side)
{
	/* Its pages are there before it has ended. */
	smp_mb__before_atomic();
	atomic_dec(&image->calls.inside[side]);
}

/**
 * floop_calls_look() - see which calls there are
 * @image: the image
 *
 * Context: Process context. Doesn't sleep.
 * Return: what floop_calls_wait() asks for.
 */
unsigned long floop_calls_look(struct floop_image *image)
{
	struct floop_calls *calls = &image->calls;
	unsigned long look;

	spin_lock(&calls->lock);
	look = calls->turns + 2;
	spin_unlock(&calls->lock);
	return look;
}

/* Have all calls ended that there were at @look? */
static bool have_ended(struct floop_image *image, unsigned long look)
{
	struct floop_calls *calls = &image->calls;
	bool ended;

	spin_lock(&calls->lock);
	while ((long)(calls->turns - look) < 0 &&
	       !atomic_read_acquire(&calls->inside[~calls->turns & 1]))
		calls->turns++;
	ended = (long)(calls->turns - look) >= 0;
	spin_unlock(&calls->lock);
	return ended;
}

/**
 * floop_calls_wait() - wait for the calls to end that there were
 * @image: the image
 * @look: when: from floop_calls_look()
 *
 * Context: Process context. Sleeps for a tenth of a second at most.
 * Return: false if one hasn't ended by then.
 */
bool floop_calls_wait(struct floop_image *image, unsigned long look)
{
	unsigned long end = jiffies + PATIENCE;
	unsigned int looks = 0;

	while (!have_ended(image, look)) {
		if (time_after(jiffies, end))
			return false;
		if (looks++ < SOON)
			usleep_range(20, 50);
		else
			usleep_range(500, 1000);
	}
	return true;
}

/**
 * floop_calls_park() - let no write of a part of a block begin
 * @image: the image
 *
 * Context: Process context. Doesn't sleep.
 */
void floop_calls_park(struct floop_image *image)
{
	spin_lock(&image->calls.lock);
	WRITE_ONCE(image->calls.parked, true);
	spin_unlock(&image->calls.lock);
}

/**
 * floop_calls_unpark() - undo floop_calls_park()
 * @image: the image
 *
 * Context: Process context. Doesn't sleep.
 */
void floop_calls_unpark(struct floop_image *image)
{
	spin_lock(&image->calls.lock);
	WRITE_ONCE(image->calls.parked, false);
	spin_unlock(&image->calls.lock);
	wake_up_all(&image->calls.unparked);
}
