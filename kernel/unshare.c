// SPDX-License-Identifier: GPL-2.0
/*
 * Files that have been cloned (unshare.h). xfs sets a flag in both files, keeps
 * it when one of the two is gone, and tells of no block where it is set. Only
 * when it is asked to copy what is shared does it look whether anything is, and
 * take the flag away. So the fill has nothing copied now and then
 * (floop_look_unshare()). That is a change of our own, and I/O waits for it: so
 * it is made rarely, and only while it can't take long.
 */
#include <linux/bitmap.h>
#include <linux/fs.h>
#include <linux/jiffies.h>
#include <linux/rcupdate.h>
#include <linux/workqueue.h>

#include "ask.h"
#include "change.h"
#include "fill.h"
#include "image.h"
#include "lease.h"
#include "look.h"
#include "rules.h"
#include "unshare.h"

/* How often to see whether a file still shares blocks. */
#define UNSHARE_FIRST		(10 * HZ)
#define UNSHARE_LAST		(600 * HZ)
/* And if it couldn't be seen. */
#define UNSHARE_RETRY		(60 * HZ)
/* Attempts to find all pages written, with no call in progress. */
#define WRITTEN_TRIES		10
/* Writes wait meanwhile: for one part of so many of the time, at most. */
#define UNSHARE_PART		100
#define UNSHARE_LONGEST		(3600 * HZ)

/**
 * floop_unshare_init() - the file may have been cloned
 * @fill: the fill of an image that isn't mapped yet
 *
 * Context: Any.
 */
void floop_unshare_init(struct floop_fill *fill)
{
	fill->maybe_shared = false;
	fill->unshare_at = jiffies;
	fill->unshare_wait = UNSHARE_FIRST;
	fill->unsharing = false;
}

/**
 * floop_unshare_reset() - the file shares nothing: of the next clone see soon
 * @fill: the fill
 *
 * Context: The fill's work.
 */
void floop_unshare_reset(struct floop_fill *fill)
{
	fill->unshare_wait = UNSHARE_FIRST;
}

/**
 * floop_unshare_put_off() - see later
 * @fill: the fill of an image of which a block is shared
 *
 * Context: The fill's work.
 */
void floop_unshare_put_off(struct floop_fill *fill)
{
	WRITE_ONCE(fill->unshare_at, jiffies + fill->unshare_wait);
	fill->unshare_wait = min_t(unsigned long, fill->unshare_wait * 2,
				   UNSHARE_LAST);
}

/**
 * floop_unshare_is_due() - is it time to see whether the file shares blocks?
 * @image: the image
 *
 * Not while somebody reads it, who could hold the inode's lock: writes would
 * wait behind us. Nor while somebody writes to it: only our own calls are
 * counted.
 *
 * Context: Any.
 * Return: true if it may, and hasn't been seen to lately.
 */
bool floop_unshare_is_due(struct floop_image *image)
{
	struct floop_fill *fill = &image->fill;

	return (READ_ONCE(fill->shared) || READ_ONCE(fill->maybe_shared)) &&
	       !image->read_only && !floop_lease_has_others(image) &&
	       time_after_eq(jiffies, READ_ONCE(fill->unshare_at));
}

/**
 * floop_unshare_until() - when is it time to see that?
 * @image: the image
 *
 * Context: Any.
 * Return: in how many jiffies. Others, who keep us from it, may go at any time.
 */
unsigned long floop_unshare_until(struct floop_image *image)
{
	if (floop_unshare_is_due(image))
		return 0;
	return max_t(long, image->fill.unshare_at - jiffies, UNSHARE_FIRST);
}

/*
 * Park the image's calls while its pages are written: xfs doesn't look while
 * one isn't. The pages may be a throttled cgroup's, so nobody waits for long,
 * and nobody is parked meanwhile.
 */
static bool begin_unshare(struct floop_image *image, unsigned long *took)
{
	bool ready = false, parked = true;
	unsigned int tries = 0;

	while (parked && !ready && tries++ < WRITTEN_TRIES &&
	       READ_ONCE(image->guard.wanted)) {
		unsigned long began;

		floop_cache_write_soon(image);
		began = jiffies;
		parked = floop_calls_park(image);
		ready = parked && floop_cache_is_written(image);
		if (!ready)
			floop_calls_unpark(image);
		*took += jiffies - began;
	}
	return ready;
}

/**
 * floop_unshare() - have xfs see whether the file still shares blocks
 * @image: the image
 * @todo: its chunks
 *
 * The next epoch finds out. Whatever may take long comes before the image's
 * calls are parked.
 *
 * Context: The fill's work. Sleeps.
 * Return: true if the work is left behind.
 */
bool floop_unshare(struct floop_image *image, struct floop_todo *todo)
{
	struct floop_look look = { .ask = todo->ask };
	struct floop_fill *fill = &image->fill;
	unsigned long took = 0, wait;
	bool asked = false;

	WRITE_ONCE(fill->maybe_shared, false);
	WRITE_ONCE(fill->unshare_at, jiffies + fill->unshare_wait);
	WRITE_ONCE(fill->unsharing, floop_rule_holds(FLOOP_RULE_CHANGES));
	if (floop_change_begin(image) && begin_unshare(image, &took)) {
		unsigned long began = jiffies;

		asked = floop_look_unshare(&look, image->sync_file);
		if (look.left)
			return true;
		floop_calls_unpark(image);
		took += jiffies - began;
	}
	wait = max(fill->unshare_wait,
		   min_t(unsigned long, took * UNSHARE_PART, UNSHARE_LONGEST));
	WRITE_ONCE(fill->unshare_at, jiffies + wait);
	fill->unshare_wait = max(fill->unshare_wait,
				 min_t(unsigned long, fill->unshare_wait * 2,
				       asked ? UNSHARE_LAST : UNSHARE_RETRY));
	if (asked) {
		mutex_lock(&image->guard.map.lock);
		bitmap_fill(todo->bits, todo->chunks);
		mutex_unlock(&image->guard.map.lock);
	}
	WRITE_ONCE(fill->unsharing, false);
	/* No sector has changed; the first one stands for none. */
	floop_change_end(image, 0, 1);
	return false;
}

/**
 * floop_unshare_serves() - is this the fill, in a change of its own?
 * @image: the image
 *
 * Context: Any.
 * Return: true if it is, and isn't left behind.
 */
bool floop_unshare_serves(struct floop_image *image)
{
	struct floop_todo *todo;
	bool serves;

	rcu_read_lock();
	todo = rcu_dereference(image->fill.todo);
	serves = todo && READ_ONCE(image->fill.unsharing) &&
		 current_work() == &todo->ask->work.work;
	rcu_read_unlock();
	return serves;
}

/**
 * floop_unshare_soon() - see soon whether the file still shares blocks
 * @image: an image of which xfs claims more than when it was attached, as it
 *	does when the file has been cloned
 *
 * Context: Any, with the guard started.
 */
void floop_unshare_soon(struct floop_image *image)
{
	struct floop_fill *fill = &image->fill;
	struct floop_todo *todo;

	WRITE_ONCE(fill->maybe_shared, true);
	if (!floop_unshare_is_due(image))
		return;
	todo = rcu_dereference_protected(fill->todo, true);
	floop_ask_queue(todo->ask, 0);
}
