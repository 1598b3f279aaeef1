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
 *  - while the fill has xfs take the flag away, no call begins, and the ones
 *    before have ended.
 *
 * To take the flag away, xfs waits for direct I/O in flight, with the inode's
 * lock held. I/O of a throttled cgroup is in flight for as long as it is
 * throttled, and all other I/O would wait for the lock. So calls of
 * ->read_iter() don't begin, either, and xfs is asked when no direct I/O is in
 * flight.
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
	floop_sides_init(&image->calls.sides[READ]);
	floop_sides_init(&image->calls.sides[WRITE]);
	init_waitqueue_head(&image->calls.unparked);
}

/**
 * floop_calls_begin() - before ->read_iter() or ->write_iter() is called
 * @image: the image
 * @rw: READ or WRITE
 * @wait: it may sleep
 *
 * Context: A worker of the image. Sleeps with @wait while calls are parked.
 * Return: the side, for floop_calls_end(); -EAGAIN if it would sleep.
 */
int floop_calls_begin(struct floop_image *image, int rw, bool wait)
{
	struct floop_calls *calls = &image->calls;
	int side;

	/* Only xfs is asked to take a flag away, of what we may write to. */
	if (rw == READ &&
	    (image->read_only || !READ_ONCE(image->guard.exchanges)))
		return FLOOP_CALLS_UNCOUNTED;
	for (;;) {
		/* Counted first: floop_calls_park() sees it, or we see that. */
		side = floop_sides_begin(&calls->sides[rw]);
		if (likely(!READ_ONCE(calls->parked)))
			return side;
		floop_sides_end(&calls->sides[rw], side);
		if (!wait)
			return -EAGAIN;
		wait_event(calls->unparked, !READ_ONCE(calls->parked));
	}
}

/**
 * floop_calls_end() - after ->read_iter() or ->write_iter() has returned
 * @image: the image
 * @rw: READ or WRITE
 * @side: from floop_calls_begin()
 *
 * Context: Process context. Doesn't sleep.
 */
void floop_calls_end(struct floop_image *image, int rw, int side)
{
	/* A write's pages are there before it has ended. */
	if (side != FLOOP_CALLS_UNCOUNTED)
		floop_sides_end(&image->calls.sides[rw], side);
}

/**
 * floop_calls_look() - see which writes there are
 * @image: the image
 *
 * Context: Process context. Doesn't sleep.
 * Return: what floop_calls_wait() asks for.
 */
unsigned long floop_calls_look(struct floop_image *image)
{
	return floop_sides_look(&image->calls.sides[WRITE]);
}

/* Let some time pass between two looks. Returns false after @end (jiffies). */
static bool go_on(unsigned long end, unsigned int *looks)
{
	if (time_after(jiffies, end))
		return false;
	if ((*looks)++ < SOON)
		usleep_range(20, 50);
	else
		usleep_range(500, 1000);
	return true;
}

static bool wait_until(struct floop_sides *sides, unsigned long look,
		       unsigned long end)
{
	unsigned int looks = 0;

	while (!floop_sides_have_ended(sides, look))
		if (!go_on(end, &looks))
			return false;
	return true;
}

/**
 * floop_calls_wait() - wait for the writes to end that there were
 * @image: the image
 * @look: when: from floop_calls_look()
 *
 * Context: Process context. Sleeps for a tenth of a second at most.
 * Return: false if one hasn't ended by then.
 */
bool floop_calls_wait(struct floop_image *image, unsigned long look)
{
	return wait_until(&image->calls.sides[WRITE], look, jiffies + PATIENCE);
}

/**
 * floop_calls_park() - let no call begin, and wait for what there is
 * @image: the image; floop_calls_unpark() has to follow
 *
 * Context: Process context. Sleeps for a tenth of a second at most.
 * Return: false if a call, or direct I/O to the file, hasn't ended by then.
 */
bool floop_calls_park(struct floop_image *image)
{
	atomic_t *in_flight = &file_inode(image->file)->i_dio_count;
	struct floop_sides *sides = image->calls.sides;
	unsigned long end = jiffies + PATIENCE;
	unsigned int looks = 0;

	WRITE_ONCE(image->calls.parked, true);
	/* Before the look at the calls, see floop_calls_begin(). */
	smp_mb();
	if (!wait_until(&sides[WRITE], floop_sides_look(&sides[WRITE]), end) ||
	    !wait_until(&sides[READ], floop_sides_look(&sides[READ]), end))
		return false;
	while (atomic_read(in_flight))
		if (!go_on(end, &looks))
			return false;
	return true;
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
