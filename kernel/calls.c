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
	floop_sides_init(&image->calls.sides);
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

	for (;;) {
		/* Counted first: floop_calls_park() sees it, or we see that. */
		side = floop_sides_begin(&calls->sides);
		if (likely(!READ_ONCE(calls->parked)) ||
		    !is_part(image, pos, bytes))
			return side;
		floop_sides_end(&calls->sides, side);
		if (!wait)
			return -EAGAIN;
		wait_event(calls->unparked, !READ_ONCE(calls->parked));
	}
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
	floop_sides_end(&image->calls.sides, side);
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
	return floop_sides_look(&image->calls.sides);
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

	while (!floop_sides_have_ended(&image->calls.sides, look)) {
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
	WRITE_ONCE(image->calls.parked, true);
	/* Before the look at the calls, see floop_calls_begin(). */
	smp_mb();
}

/**
 * floop_calls_unpark() - undo floop_calls_park()
 * @image: the image
 *
 * Context: Process context. Doesn't sleep.
 */
void floop_calls_unpark(struct floop_image *image)
{
	WRITE_ONCE(image->calls.parked, false);
	wake_up_all(&image->calls.unparked);
}
