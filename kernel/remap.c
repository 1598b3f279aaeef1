// SPDX-License-Identifier: GPL-2.0
/*
 * The mapped path. In an epoch (guard.h) a bio whose sectors are in the map is
 * pointed at the disk's own, in its submitter's context, and goes on as it is:
 * flags, priority, write hint and cookie are the disk's to see. There is no
 * clone. What the bio said of its end is put aside and given back at the end.
 */
#include <linux/blkdev.h>
#include <linux/fs.h>
#include <linux/mempool.h>
#include <linux/percpu.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "compat.h"
#include "device.h"
#include "fill.h"
#include "guard.h"
#include "image.h"
#include "io.h"
#include "lane.h"
#include "names.h"
#include "rules.h"
#include "times.h"
#include "trace.h"

/* Mempool reserve of an image; without memory, more take the file path. */
#define RESERVE		4
/* A CPU keeps so many for its next I/O. KASAN wants to see them freed. */
#define FREE_LIST_MAX		(IS_ENABLED(CONFIG_KASAN) ? 0 : 32)

static struct kmem_cache *remap_cache;

/**
 * struct remap - what a bio said before it was pointed elsewhere
 * @end_io: its bi_end_io
 * @private: its bi_private
 * @bdev: its bi_bdev
 * @iter: its bi_iter
 * @freeze_held: it holds freeze protection of the image's file system
 * @flushes: the disk's statistics will know of its flush; the disk below may have
 *	taken it out of the bio
 * @image: the image; of whose guard it holds a reference
 * @start: when it came, in jiffies, or 0: the disk's statistics don't know of it
 * @bio: the bio, if its end is left to @stale_work
 * @stale_work: ends it, where that can't be done at once
 * @next: in a CPU's free_list: the one below
 * @depth: and how many there are, with this one
 */
struct remap {
	bio_end_io_t *end_io;
	void *private;
	struct block_device *bdev;
	struct bvec_iter iter;
	bool freeze_held;
	bool flushes;
	struct floop_image *image;
	unsigned long start;
	struct bio *bio;
	struct work_struct stale_work;
	struct remap *next;
	unsigned int depth;
};

/*
 * What the last I/Os of a CPU have given back. The slab and the mempool take ten
 * times the instructions. Interrupts put something in at any time, but only tasks
 * take something out, one at a time: what is on top and what lies below it don't
 * change for them unless the top does.
 */
static DEFINE_PER_CPU(struct remap *, free_list);

static struct remap *remap_alloc(struct floop_image *image)
{
	struct remap *remap;

	preempt_disable();
	remap = this_cpu_read(free_list);
	while (remap && !this_cpu_try_cmpxchg(free_list, &remap, remap->next))
		;
	preempt_enable();
	if (likely(remap))
		return remap;
	return mempool_alloc(&image->remaps, GFP_NOWAIT | __GFP_NOWARN);
}

static bool free_list_push(struct remap *remap)
{
	struct remap *top;
	bool fits;

	preempt_disable();
	top = this_cpu_read(free_list);
	do {
		remap->next = top;
		remap->depth = top ? top->depth + 1 : 1;
		fits = remap->depth <= FREE_LIST_MAX;
	} while (fits && !this_cpu_try_cmpxchg(free_list, &top, remap));
	preempt_enable();
	return fits;
}

static inline void remap_free(struct floop_image *image, struct remap *remap)
{
	/*
	 * What is missing from the reserve goes there, for someone may wait for
	 * it. The barrier is that of mempool_free(): if this came out of the
	 * reserve, it is seen to be missing.
	 */
	smp_rmb();
	if (unlikely(!mempool_is_saturated(&image->remaps)) ||
	    unlikely(!free_list_push(remap)))
		mempool_free(remap, &image->remaps);
}

static void free_lists_drain(void)
{
	struct remap *remap;
	int cpu;

	for_each_possible_cpu(cpu) {
		while ((remap = per_cpu(free_list, cpu))) {
			per_cpu(free_list, cpu) = remap->next;
			kmem_cache_free(remap_cache, remap);
		}
	}
}

static inline void remap_freeze_put(struct remap *remap)
{
	if (remap->freeze_held) {
		struct super_block *sb = file_inode(remap->image->file)->i_sb;

		__sb_writers_acquired(sb, SB_FREEZE_WRITE);
		sb_end_write(sb);
	}
	remap->freeze_held = false;
}

/* The reference of the guard is not given back by this. */
static inline void remap_release(struct remap *remap)
{
	remap_freeze_put(remap);
	remap_free(remap->image, remap);
}

static void remap_finish(struct bio *bio)
{
	struct remap *remap = bio->bi_private;

	bio->bi_end_io = remap->end_io;
	bio->bi_private = remap->private;
	bio->bi_bdev = remap->bdev;
	bio->bi_iter = remap->iter;
	/* The disk has told of its own; this is the device's. */
	bio_set_flag(bio, BIO_TRACE_COMPLETION);
	/* What the disk's policies have counted isn't counted off twice. */
	bio->bi_flags &= ~(BIT(BIO_QOS_THROTTLED) | BIT(BIO_QOS_MERGED));
	if (remap->start && bio_sectors(bio))
		bdev_end_io_acct(bio->bi_bdev, bio_op(bio), bio_sectors(bio),
				 remap->start);
	if (unlikely(remap->flushes))
		floop_io_count_flush(bio, remap->start);
	if (unlikely(bio->bi_status))
		floop_io_log_error(bio, bio->bi_status);
	remap_release(remap);
	bio_endio(bio);
}

static bool remap_is_stale(struct remap *remap, struct bio *bio)
{
	return op_is_write(bio_op(bio)) &&
	       floop_guard_has_pages(&remap->image->guard) &&
	       remap->iter.bi_size && floop_rule_holds(FLOOP_RULE_CACHE);
}

/*
 * Someone has read the image through its page cache while we wrote to it: the
 * pages may hold what was there before. As after every direct write, they go
 * before the write is said to be done. Not in an interrupt.
 */
static void stale_work(struct work_struct *work)
{
	struct remap *remap = container_of(work, struct remap, stale_work);
	struct floop_guard *guard = &remap->image->guard;
	loff_t pos = remap->image->offset +
		     ((loff_t)remap->iter.bi_sector << SECTOR_SHIFT);
	unsigned int memflags;

	/* With the guard held, memory may not be waited for by I/O to us. */
	memflags = memalloc_noio_save();
	if (remap_is_stale(remap, remap->bio))
		floop_cache_drop_range(remap->image, pos,
				       remap->iter.bi_size);
	memalloc_noio_restore(memflags);
	floop_window(FLOOP_WINDOW_END);
	remap_finish(remap->bio);
	percpu_ref_put(&guard->users);
}

static void remap_end(struct bio *bio)
{
	struct remap *remap = bio->bi_private;
	struct floop_guard *guard = &remap->image->guard;

	if (unlikely(remap_is_stale(remap, bio)) ||
	    floop_window_is_open(FLOOP_WINDOW_END)) {
		/* The disk has it: don't keep a freeze waiting for pages. */
		remap_freeze_put(remap);
		remap->bio = bio;
		INIT_WORK(&remap->stale_work, stale_work);
		floop_lane_stale(remap->image->lanes, &remap->stale_work);
		return;
	}
	remap_finish(bio);
	/*
	 * Last: without it the image may be gone, and with it the bio set that
	 * the bio came from.
	 */
	percpu_ref_put(&guard->users);
}

/*
 * A write keeps the file system below from being frozen, as every write to it
 * does. Returns false where it is frozen, or not to be written to any more.
 */
static bool remap_freeze_get(struct floop_image *image)
{
	struct super_block *sb = file_inode(image->file)->i_sb;

	if (unlikely(sb_rdonly(sb)) || unlikely(!sb_start_write_trylock(sb)))
		return false;
	/* It is let go by who completes the bio: lockdep is told, as for AIO. */
	__sb_writers_release(sb, SB_FREEZE_WRITE);
	floop_times_wrote(&image->times);
	return true;
}

/*
 * A disk takes no writes from us that it takes from nobody: blkdev_write_iter()
 * asks, submit_bio() doesn't.
 */
static bool disk_refuses(struct floop_image *image)
{
	return bdev_read_only(image->guard.disk) ||
	       IS_SWAPFILE(image->guard.mapping->host);
}

/* Can this bio be served in parts? Part of one that may not wait is none. */
static bool may_split(struct bio *bio)
{
	return !(bio->bi_opf & (REQ_NOWAIT | REQ_PREFLUSH | REQ_ATOMIC));
}

/*
 * Cut off what is alike at the front of a bio. The rest comes back to us, when
 * the front has been submitted. Without memory all of it goes through the file
 * system: to wait for some, with a reference of the guard, would be to wait for
 * bios that do.
 */
static struct bio *remap_split(struct floop_image *image, struct bio *bio,
			       sector_t nr)
{
	struct bio *front = bio_split(bio, nr, GFP_NOWAIT | __GFP_NOWARN,
				      &image->splits);

	if (IS_ERR_OR_NULL(front))
		return NULL;
	bio_chain(front, bio);
	submit_bio_noacct(bio);
	return front;
}

/* A bio that isn't all where the last ones were; it is cut to what is alike. */
static noinline sector_t remap_find(struct floop_image *image, struct bio **bio,
				    sector_t sector)
{
	struct bio *front;
	sector_t disk, end;
	bool mapped;

	rcu_read_lock();
	mapped = floop_map_find(&image->guard.map, sector, &disk, &end);
	rcu_read_unlock();
	if (!mapped)
		floop_fill_missed(image, sector);
	if (end - sector < bio_sectors(*bio)) {
		front = may_split(*bio) ?
			remap_split(image, *bio, end - sector) : NULL;
		if (!front)
			return FLOOP_NOWHERE;
		*bio = front;
	}
	return mapped ? disk : FLOOP_NOWHERE;
}

/* The disk's sector for a bio, or FLOOP_NOWHERE. A flush has no place. */
static sector_t remap_place(struct floop_image *image, struct bio **bio)
{
	sector_t sector = (image->offset >> SECTOR_SHIFT) +
		       (*bio)->bi_iter.bi_sector;
	sector_t nr = bio_sectors(*bio), disk;

	if (!nr)
		return 0;
	disk = floop_map_cached(&image->guard.map, sector, nr);
	if (likely(disk != FLOOP_NOWHERE))
		return disk;
	return remap_find(image, bio, sector);
}

/*
 * The end of a bio that others are chained to waits for theirs, and one of them
 * may go through the file system and wait there for who broke the lease, who
 * waits for us to drain. So what is mapped of it has an end of its own.
 */
static struct bio *remap_unchain(struct floop_image *image, struct bio *bio)
{
	struct bio *clone = bio_alloc_clone(bio->bi_bdev, bio,
					    GFP_NOWAIT | __GFP_NOWARN,
					    &image->splits);

	if (clone) {
		bio_chain(clone, bio);
		bio_endio(bio);
	}
	return clone;
}

static void remap_submit(struct floop_image *image, struct bio *bio,
			 struct remap *remap, sector_t disk)
{
	remap->end_io = bio->bi_end_io;
	remap->private = bio->bi_private;
	remap->bdev = bio->bi_bdev;
	remap->iter = bio->bi_iter;
	remap->start = 0;
	remap->flushes = false;
	if (blk_queue_io_stat(bdev_get_queue(bio->bi_bdev))) {
		remap->flushes = bio->bi_opf & REQ_PREFLUSH;
		remap->start = bio_sectors(bio) ?
			       bdev_start_io_acct(bio->bi_bdev, bio_op(bio),
						  jiffies) : jiffies;
	}
	trace_floop_io_mapped(image, bio);
	this_cpu_inc(image->counts->mapped);

	bio->bi_end_io = remap_end;
	bio->bi_private = remap;
	bio->bi_iter.bi_sector = disk;
	/* Each device counts it once. */
	bio_clear_flag(bio, BIO_CGROUP_ACCT);
	bio_set_dev(bio, image->guard.disk);
	submit_bio_noacct(bio);
}

/**
 * floop_remap() - send a bio to the disk, if it can be
 * @image: the image
 * @bio: a read, a write or a flush; not changed if it can't be. If only its
 *	front is alike, the rest has been submitted again and @bio is set to the
 *	front
 *
 * Context: Process context, in ->submit_bio. Doesn't wait.
 * Return: false if it has to go through the file system.
 */
bool floop_remap(struct floop_image *image, struct bio **bio)
{
	struct floop_guard *guard = &image->guard;
	blk_opf_t opf = (*bio)->bi_opf;
	struct remap *remap;
	sector_t disk;

	if (!percpu_ref_tryget_live(&guard->users))
		return false;
	/* Nothing of the map is read before it is known that it may be. */
	smp_acquire__after_ctrl_dep();
	if (unlikely(floop_guard_flags_changed(guard)) ||
	    unlikely(floop_guard_has_pages(guard))) {
		floop_guard_doubt(image);
		goto unmapped;
	}
	/* What the file system has written it also has to make durable. */
	if ((opf & REQ_PREFLUSH) && READ_ONCE(image->sync) != FLOOP_SYNCED &&
	    floop_rule_holds(FLOOP_RULE_FLUSH))
		goto unmapped;
	if ((opf & REQ_NOWAIT) && !bdev_nowait(guard->disk))
		goto unmapped;
	if (op_is_write(opf) && image->is_bdev && bio_sectors(*bio) &&
	    unlikely(disk_refuses(image)))
		goto unmapped;
	disk = remap_place(image, bio);
	if (disk == FLOOP_NOWHERE)
		goto unmapped;

	/* Not with the guard held: the file path may wait for memory. */
	remap = remap_alloc(image);
	if (unlikely(!remap))
		goto unmapped;
	remap->image = image;
	remap->freeze_held = op_is_write(opf) && !image->is_bdev &&
			    bio_sectors(*bio) &&
			    floop_rule_holds(FLOOP_RULE_FREEZE);
	if (remap->freeze_held && !remap_freeze_get(image)) {
		remap_free(image, remap);
		goto unmapped;
	}
	if (unlikely(bio_flagged(*bio, BIO_CHAIN))) {
		struct bio *clone = remap_unchain(image, *bio);

		if (!clone) {
			remap_release(remap);
			goto unmapped;
		}
		*bio = clone;
	}
	if (opf & REQ_PREFLUSH) {
		floop_times_touch(image);
		floop_io_check_policy(image->dev);
	}
	floop_window(FLOOP_WINDOW_SUBMIT);
	remap_submit(image, *bio, remap, disk);
	return true;

unmapped:
	percpu_ref_put(&guard->users);
	return false;
}

/**
 * floop_remap_init_image() - prepare an image's reserves
 * @image: the image
 *
 * Return: 0 or -ENOMEM.
 */
int floop_remap_init_image(struct floop_image *image)
{
	int err;

	err = mempool_init_slab_pool(&image->remaps, RESERVE, remap_cache);
	if (err)
		return err;
	err = bioset_init(&image->splits, RESERVE, 0, 0);
	if (err)
		mempool_exit(&image->remaps);
	return err;
}

/**
 * floop_remap_exit_image() - undo floop_remap_init_image()
 * @image: the image; no I/O is in flight
 */
void floop_remap_exit_image(struct floop_image *image)
{
	bioset_exit(&image->splits);
	mempool_exit(&image->remaps);
}

/**
 * floop_remap_init() - set up what all images share
 *
 * Return: 0 or -ENOMEM.
 */
int floop_remap_init(void)
{
	remap_cache = kmem_cache_create(FLOOP_NAME "_remap",
					sizeof(struct remap), 0,
					SLAB_HWCACHE_ALIGN, NULL);
	return remap_cache ? 0 : -ENOMEM;
}

/**
 * floop_remap_exit() - undo floop_remap_init()
 */
void floop_remap_exit(void)
{
	free_lists_drain();
	kmem_cache_destroy(remap_cache);
}
