// SPDX-License-Identifier: GPL-2.0
/*
 * Fill the map. A block may be mapped when the file system has allocated and
 * written it, and when that is durable. So blocks are looked up in an epoch, an
 * fsync makes them durable, and if it is still the same epoch after that, they
 * go into the map. Where they are is looked up in lookup.c.
 */
#include <linux/bitmap.h>
#include <linux/blkdev.h>
#include <linux/fs.h>
#include <linux/ktime.h>
#include <linux/rcupdate.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "ask.h"
#include "commit.h"
#include "fill.h"
#include "guard.h"
#include "helper.h"
#include "hole.h"
#include "image.h"
#include "kinds.h"
#include "lookup.h"
#include "unshare.h"

#define MIN_CHUNK_SHIFT	13U	/* 4 MiB */
#define MAX_CHUNKS		BIT(18)
/* How long to wait for the next write after one through the file system. */
#define WROTE_LINGERS		msecs_to_jiffies(200)
/* Of a file that shares blocks: so many times what its last lookup took... */
#define LIST_TIMES		100
/* ...and this at most. */
#define LIST_LINGERS		(2 * HZ)
/* The longest such delay, if writes keep blocks out of the map. */
#define BUSY_LAST		(10 * HZ)
/* The delay before holes are looked for that writes have kept unknown. */
#define UNSURE_FIRST		HZ
#define UNSURE_LAST		(60 * HZ)
/* The longest delay before blocks are looked up again that weren't listed. */
#define RELIST_LAST		(60 * HZ)
/* The delay before the next attempt after the file system has failed. */
#define BACKOFF_FIRST		HZ
#define BACKOFF_LAST		(60 * HZ)

/*
 * The file has shared blocks when they were listed. Others may have given up
 * their share: look all of it up again, and map for writes, too, what isn't
 * shared any more.
 */
static void look_up_again(struct floop_image *image, struct floop_todo *todo)
{
	struct floop_fill *fill = &image->fill;

	fill->still_shares = false;
	floop_unshare_put_off(fill);
	mutex_lock(&image->guard.map.lock);
	bitmap_fill(todo->bits, todo->chunks);
	mutex_unlock(&image->guard.map.lock);
}

static bool is_marked(const struct floop_todo *todo)
{
	return find_first_bit(todo->bits, todo->chunks) < todo->chunks;
}

static bool is_done(struct floop_fill *fill, struct floop_todo *todo)
{
	return fill->rest == FLOOP_NOWHERE && !is_marked(todo);
}

/*
 * Take out of the map what writes may have moved, and look it up again. Returns
 * 0 or -ENOMEM: then it stays noted.
 */
static int take_moved(struct floop_image *image, struct floop_todo *todo)
{
	struct mutex *lock = &image->guard.map.lock;
	struct floop_map *map = &image->shared.map;
	sector_t sector = 0, nr;
	unsigned long extents;
	int err;

	/* What is noted from here on is seen below, or the next time. */
	if (!READ_ONCE(image->holes.nr_moved))
		return 0;
	for (; floop_holes_moved(image, &sector, &nr); sector += nr) {
		mutex_lock(lock);
		extents = map->extents;
		err = floop_shared_remove(image, sector, nr);
		/* That has made room. */
		if (map->extents < extents)
			WRITE_ONCE(image->fill.full, false);
		mutex_unlock(lock);
		if (err)
			return err;
		floop_holes_settle(image, sector, nr);
		floop_lookup_mark(todo, sector, nr);
		cond_resched();
	}
	return 0;
}

/* Chunks that were allocated ahead are mapped before they are durable. */
static int make_chunks_durable(struct floop_image *image)
{
	if (READ_ONCE(image->ahead.durable) ==
	    READ_ONCE(image->ahead.undurable))
		return 0;
	return floop_image_make_durable(image);
}

/*
 * When all else is looked up, look again for the holes that writes have kept
 * unknown, if there is a chance now. The delay grows: each time may be in vain.
 */
static void look_again(struct floop_image *image, struct floop_todo *todo)
{
	struct floop_fill *fill = &image->fill;
	unsigned long begun;

	if (READ_ONCE(fill->shared) && fill->unlisted &&
	    floop_helper_is_set() && is_done(fill, todo)) {
		fill->unlisted = false;
		fill->relist = min_t(unsigned long, fill->relist * 2,
				     RELIST_LAST);
		bitmap_fill(todo->bits, todo->chunks);
		return;
	}
	if (fill->unsure >= fill->unsure_end || !is_done(fill, todo))
		return;
	fill->again = min_t(unsigned long, fill->again * 2, UNSURE_LAST);
	if (!floop_holes_look(image, &begun))
		return;
	floop_lookup_mark(todo, fill->unsure, fill->unsure_end - fill->unsure);
	floop_lookup_forget(fill);
}

/*
 * How a batch has ended: with @err, or left behind. Somebody was @busy where it
 * might have been mapped; all that was marked, as a @whole, is looked up. That
 * @took so many ns.
 */
struct outcome {
	int err;
	bool left;
	bool busy;
	bool whole;
	u64 took;
};

/*
 * How long to wait for more writes from here on: of a file that shares blocks,
 * a chunk is listed as a whole for each write to it.
 */
static void set_linger(struct floop_fill *fill)
{
	unsigned long linger = WROTE_LINGERS;

	if (READ_ONCE(fill->shared))
		linger = clamp(nsecs_to_jiffies(fill->took * LIST_TIMES),
			       WROTE_LINGERS, LIST_LINGERS);
	WRITE_ONCE(fill->linger, linger);
	fill->took = 0;
}

/* Look up what is marked, and map it. */
static struct outcome fill_batch(struct floop_ask *ask, struct floop_todo *todo,
				 unsigned long epoch)
{
	struct floop_batch *batch = kvmalloc(sizeof(*batch), GFP_KERNEL);
	struct outcome outcome = { .err = -ENOMEM };
	u64 begun;

	if (!batch)
		return outcome;
	/* What is behind is large, and written before it is read. */
	memset(batch, 0, offsetof(struct floop_batch, found));
	batch->look.ask = ask;
	/* Not the whole file: fiemap() would count all its extents. */
	batch->look.extent = 1;
	batch->look.empty = 1;
	batch->image = ask->image;
	batch->epoch = epoch;
	floop_holes_look_at_parts(batch->image, &batch->quiet);
	look_again(batch->image, todo);
	begun = ktime_get_ns();
	floop_lookup(batch, todo);
	outcome.took = ktime_get_ns() - begun;
	if (batch->nr && !batch->look.left)
		outcome.err = floop_commit(batch, todo) ?: batch->look.err;
	else
		outcome.err = batch->look.err;
	outcome.left = batch->look.left;
	outcome.busy = batch->busy;
	outcome.whole = batch->whole;
	kvfree(batch);
	return outcome;
}

/*
 * Continue at once, with other work in between; after a delay if only writes
 * since have left something, if the file system has failed or memory is short,
 * or if only unknown holes are left, or a file that shares blocks; not at all
 * if everything is looked up, the map is full, or the epoch has ended. The next
 * epoch starts the fill itself.
 */
static void schedule_next(struct floop_image *image, struct floop_todo *todo,
			  const struct outcome *outcome, unsigned long epoch)
{
	struct floop_fill *fill = &image->fill;
	unsigned long later = MAX_JIFFY_OFFSET, linger;
	int err = outcome->err;

	if (err == -ENOSPC || !floop_guard_in_epoch(&image->guard, epoch))
		return;
	if (!err)
		fill->backoff = 0;
	else
		fill->backoff = clamp_t(unsigned long, fill->backoff * 2,
					BACKOFF_FIRST, BACKOFF_LAST);
	if (err || !is_done(fill, todo)) {
		fill->busy_wait = !outcome->busy ? 0 :
				  clamp_t(unsigned long, fill->busy_wait * 2,
					  WROTE_LINGERS, BUSY_LAST);
		linger = outcome->whole ? fill->linger : 0;
		floop_ask_queue(todo->ask, max3(linger, fill->backoff,
						fill->busy_wait));
		return;
	}
	if (fill->unsure >= fill->unsure_end)
		fill->again = UNSURE_FIRST;
	else
		later = fill->again;
	if (READ_ONCE(fill->shared) && !image->read_only)
		later = min(later, floop_unshare_until(image));
	if (READ_ONCE(fill->shared) && fill->unlisted && floop_helper_is_set())
		later = min(later, fill->relist);
	if (later == MAX_JIFFY_OFFSET)
		return;
	WRITE_ONCE(fill->late, true);
	floop_ask_queue(todo->ask, later);
	/* A write that has not seen that it is late is seen here. */
	smp_mb();
	if (is_marked(todo)) {
		/* Nor may it have found that the timer was set. */
		WRITE_ONCE(fill->late, false);
		floop_ask_hasten(todo->ask, fill->linger);
	}
}

static void fill_work(struct floop_ask *ask)
{
	struct floop_image *image = ask->image;
	struct floop_fill *fill = &image->fill;
	/* floop_fill_stop() waits for us before it frees the bitmap. */
	struct floop_todo *todo = rcu_dereference_check(fill->todo, true);
	unsigned long epoch = READ_ONCE(image->guard.epoch);
	struct outcome outcome = { };
	unsigned int memflags;

	if (!todo)
		return;

	WRITE_ONCE(fill->late, false);
	memflags = memalloc_noio_save();
	if (floop_unshare_is_due(image) && fill->still_shares) {
		if (is_done(fill, todo))
			look_up_again(image, todo);
	} else if (floop_unshare_is_due(image) && floop_unshare(image, todo)) {
		goto restore;
	}
	if (!floop_guard_in_epoch(&image->guard, epoch))
		goto restore;
	WRITE_ONCE(fill->maybe_shared, false);
	outcome.err = take_moved(image, todo);
	if (outcome.err)
		goto schedule;
	if (READ_ONCE(fill->full)) {
		make_chunks_durable(image);
		goto restore;
	}
	outcome = fill_batch(ask, todo, epoch);
	if (outcome.left)
		goto restore;
	fill->took += outcome.took;
	if (outcome.whole)
		set_linger(fill);
	if (!outcome.err)
		outcome.err = make_chunks_durable(image);
schedule:
	schedule_next(image, todo, &outcome, epoch);
restore:
	memalloc_noio_restore(memflags);
}

/**
 * floop_fill_now() - map a range that was written just now
 * @ask: the work that calls this
 * @sector: the first sector of its file
 * @nr: the number of sectors
 * @epoch: the epoch in which it was written
 *
 * Doesn't wait for an fsync: the caller sees to it that a flush makes one, and
 * that writes with REQ_FUA wait for it (chunk.c). What can't be mapped now is
 * left to the fill.
 *
 * Context: Process context. May sleep, but doesn't wait for memory.
 * Return: 0; -ENODATA if the file system doesn't say where the range is, and it
 * is still the same epoch; -ECANCELED if the work is left behind.
 */
int floop_fill_now(struct floop_ask *ask, sector_t sector, sector_t nr,
		   unsigned long epoch)
{
	struct floop_image *image = ask->image;
	struct inode *inode = file_inode(image->file);
	unsigned int shift = inode->i_blkbits - SECTOR_SHIFT;
	sector_t block = sector >> shift, end = (sector + nr) >> shift, disk;
	struct floop_look look = { .ask = ask, .extent = nr >> shift };
	sector_t found, run = 0, run_disk = 0;

	/* One at a time where no extents can be had, but one in the map. */
	for (; block < end; block += found) {
		found = floop_look_extent(&look, block, end - block, &disk);
		if (look.left)
			return -ECANCELED;
		if (!found)
			break;
		if (run && disk != run_disk + run) {
			if (!floop_commit_now(image, epoch, block - run, run,
					      run_disk))
				return 0;
			run = 0;
		}
		if (!run)
			run_disk = disk;
		run += found;
	}
	if (run &&
	    !floop_commit_now(image, epoch, block - run, run, run_disk))
		return 0;
	return block < end && !look.err &&
	       floop_guard_in_epoch(&image->guard, epoch) ? -ENODATA : 0;
}

/**
 * floop_fill_start() - prepare to look up all of the image in the next epoch
 * @image: the image
 *
 * Context: Process context. May sleep.
 * Return: 0 or -ENOMEM.
 */
int floop_fill_start(struct floop_image *image)
{
	struct floop_fill *fill = &image->fill;
	sector_t sectors = floop_lookup_sectors(image);
	unsigned int shift = MIN_CHUNK_SHIFT;
	struct floop_todo *todo;
	unsigned long chunks;

	while (sectors >> shift >= MAX_CHUNKS)
		shift++;
	chunks = (sectors >> shift) + 1;
	todo = kvzalloc(struct_size(todo, bits, 3 * BITS_TO_LONGS(chunks)),
			GFP_KERNEL);
	if (!todo)
		return -ENOMEM;
	todo->ask = floop_ask_alloc(image, fill_work);
	if (!todo->ask) {
		kvfree(todo);
		return -ENOMEM;
	}
	todo->chunks = chunks;
	todo->shift = shift;
	todo->hole = todo->bits + BITS_TO_LONGS(chunks);
	todo->unwritten = todo->hole + BITS_TO_LONGS(chunks);
	bitmap_fill(todo->bits, chunks);
	fill->near = 0;
	fill->rest = FLOOP_NOWHERE;
	fill->full = false;
	fill->shared = false;
	fill->still_shares = false;
	fill->unlisted = false;
	fill->late = false;
	floop_unshare_init(fill);
	fill->linger = WROTE_LINGERS;
	fill->took = 0;
	fill->backoff = 0;
	fill->busy_wait = 0;
	fill->relist = FLOOP_RELIST_FIRST;
	fill->again = UNSURE_FIRST;
	floop_lookup_forget(fill);
	rcu_assign_pointer(fill->todo, todo);
	/* As far as the chunks: the file may be longer when it is mapped. */
	floop_holes_start(image, (sector_t)chunks << shift);
	return 0;
}

/**
 * floop_fill_quit() - look no more blocks up
 * @image: an image whose epoch has ended
 *
 * Context: Process context. Doesn't wait.
 * Return: true if floop_fill_stop() would wait.
 */
bool floop_fill_quit(struct floop_image *image)
{
	/* Only floop_fill_stop() takes it away. */
	struct floop_todo *todo = rcu_dereference_protected(image->fill.todo,
							    true);

	return todo && floop_ask_quit(todo->ask);
}

/**
 * floop_fill_stop() - stop looking blocks up
 * @image: the image; if it is in use, I/O to it may still call
 *	floop_fill_wrote()
 *
 * Context: Process context. Sleeps, but not for as long as somebody holds the
 * inode's lock. The caller keeps the module.
 * Return: true if a change of the fill's own is left behind, whose end nobody
 * tells the guard.
 */
bool floop_fill_stop(struct floop_image *image)
{
	struct floop_fill *fill = &image->fill;
	struct floop_todo *todo;

	if (!rcu_access_pointer(fill->todo))
		return false;
	mutex_lock(&image->guard.map.lock);
	todo = rcu_replace_pointer(fill->todo, NULL,
				   lockdep_is_held(&image->guard.map.lock));
	mutex_unlock(&image->guard.map.lock);
	/* The fill goes on with the chunks until it finds the epoch over. */
	floop_ask_stop(todo->ask);
	kvfree_rcu(todo, rcu);
	/* For a look that is left behind. */
	floop_calls_unpark(image);
	floop_holes_stop(image);
	return fill->unsharing;
}

/**
 * floop_fill_kick() - look up the chunks that are left
 * @image: an image whose epoch has begun
 *
 * Context: Any.
 */
void floop_fill_kick(struct floop_image *image)
{
	struct floop_todo *todo;

	if (image->is_bdev)
		return;
	image->fill.backoff = 0;
	/* The guard is started, and waits for us before the fill is stopped. */
	todo = rcu_dereference_protected(image->fill.todo, true);
	floop_ask_queue(todo->ask, 0);
}

/**
 * floop_fill_restart() - mark all of the image to be looked up again
 * @image: an image with nothing in its map
 *
 * Context: Process context, with the map's lock held. The fill is stopped, or
 * not running, or about to find that its epoch is over.
 */
void floop_fill_restart(struct floop_image *image)
{
	struct floop_fill *fill = &image->fill;
	struct floop_todo *todo;

	todo = rcu_dereference_protected(fill->todo,
					 lockdep_is_held(&image->guard.map.lock));
	if (todo) {
		bitmap_fill(todo->bits, todo->chunks);
		floop_kinds_forget(todo, 0, todo->chunks);
	}
	floop_holes_clear(image);
	floop_shared_clear(image);
	floop_fill_changed(image);
	WRITE_ONCE(fill->full, false);
	WRITE_ONCE(fill->shared, false);
	WRITE_ONCE(fill->linger, WROTE_LINGERS);
	fill->still_shares = false;
	fill->unlisted = false;
}

/**
 * floop_fill_discarded() - look a range up again that has no data any more
 * @image: the image
 * @sector: the first sector of its file that we have discarded or zeroed
 * @nr: the number of sectors, not 0
 *
 * It may have become a hole where it was unwritten, or unwritten where it was a
 * hole.
 *
 * Context: Process context, with the map's lock held. The next epoch looks it
 * up, or the fill that floop_fill_wrote() queues.
 */
void floop_fill_discarded(struct floop_image *image, sector_t sector,
			  sector_t nr)
{
	struct floop_fill *fill = &image->fill;
	struct floop_todo *todo;

	todo = rcu_dereference_protected(fill->todo,
					 lockdep_is_held(&image->guard.map.lock));
	floop_fill_changed(image);
	if (!todo)
		return;
	floop_kinds_forget(todo, sector >> todo->shift,
			   ((sector + nr - 1) >> todo->shift) + 1);
	if (!READ_ONCE(fill->full))
		floop_lookup_mark(todo, sector, nr);
}

/**
 * floop_fill_changed() - invalidate the kept ends of holes and data
 * @image: an image that we or others have changed
 *
 * Context: Any.
 */
void floop_fill_changed(struct floop_image *image)
{
	struct floop_fill *fill = &image->fill;

	WRITE_ONCE(fill->wrote, READ_ONCE(fill->wrote) + 1);
}

/**
 * floop_fill_missed() - look up first where an I/O has missed
 * @image: the image, in an epoch
 * @sector: the sector of its file that isn't mapped
 *
 * Context: Any. Cheap, and harmless if it is called too often.
 */
void floop_fill_missed(struct floop_image *image, sector_t sector)
{
	sector_t near = READ_ONCE(image->fill.near);

	/* CPUs share it: not for each miss. No chunk is smaller. */
	if (near >> MIN_CHUNK_SHIFT != sector >> MIN_CHUNK_SHIFT)
		WRITE_ONCE(image->fill.near, sector);
}

/**
 * floop_fill_wrote() - look up a range again after a write through the file
 * system
 * @image: the image
 * @sector: the first sector of its file
 * @nr: the number of sectors
 * @soon: the next such write may be mapped, even if the file shares blocks
 *
 * Context: Any, interrupts included.
 */
void floop_fill_wrote(struct floop_image *image, sector_t sector, sector_t nr,
		      bool soon)
{
	struct floop_fill *fill = &image->fill;
	struct floop_todo *todo;
	unsigned long delay;

	rcu_read_lock();
	todo = rcu_dereference(fill->todo);
	/* What writes may have moved is taken out of a full map, too. */
	if (todo && (!READ_ONCE(fill->full) || READ_ONCE(fill->shared))) {
		/*
		 * Two calls at once may count as one. Either write is done
		 * before it is counted, so the fill that sees the count finds
		 * both.
		 */
		floop_fill_changed(image);
		/* Before the mark: the fill that clears it sees the count. */
		smp_wmb();
		floop_lookup_mark(todo, sector, nr);
		/* Before the look at the work, which clears that first. */
		smp_mb();
		delay = max(READ_ONCE(fill->linger), READ_ONCE(fill->backoff));
		soon |= !READ_ONCE(fill->shared);
		if (!soon)
			delay = BUSY_LAST;
		if (READ_ONCE(fill->late) &&
		    (!soon || xchg(&fill->late, false))) {
			floop_ask_hasten(todo->ask, delay);
		} else if (!delayed_work_pending(&todo->ask->work)) {
			if (!soon)
				WRITE_ONCE(fill->late, true);
			floop_ask_queue(todo->ask, delay);
		}
	}
	rcu_read_unlock();
}
