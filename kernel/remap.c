// SPDX-License-Identifier: GPL-2.0
/*
 * The mapped path. In an epoch (guard.h) a bio whose sectors are in the map is
 * pointed at the disk's own sectors and submitted, in its submitter's context.
 * It is not cloned, so the disk sees its flags, priority, write hint and
 * cookie. Its completion and position are saved, and restored when it ends. A
 * flush goes to the disk alone if no write needs an fsync (enum floop_sync).
 */
#include <linux/blkdev.h>
#include <linux/fs.h>
#include <linux/ioprio.h>
#include <linux/mempool.h>
#include <linux/percpu.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "compat.h"
#include "device.h"
#include "fill.h"
#include "guard.h"
#include "hole.h"
#include "image.h"
#include "io.h"
#include "kinds.h"
#include "lane.h"
#include "rules.h"
#include "spare.h"
#include "times.h"
#include "trace.h"

/* Mempool reserve of an image; without memory I/O takes the file path. */
#define RESERVE		4
/* The most on a CPU's free list. None for KASAN, to detect use after free. */
#define FREE_LIST_MAX		(IS_ENABLED(CONFIG_KASAN) ? 0 : 32)

static struct kmem_cache *remap_cache;

/**
 * struct remap - the fields of a mapped bio before it was pointed at the disk
 * @end_io: its bi_end_io
 * @private: its bi_private
 * @bdev: its bi_bdev
 * @iter: its bi_iter
 * @freeze_held: the bio holds freeze protection of the image's file system
 * @flushes: its flush counts in the device's statistics; the disk below may
 *	clear the flag in the bio
 * @image: the image; the bio holds a reference of its guard
 * @start: its arrival, in jiffies; 0 if it doesn't count in the statistics
 * @next: the next one on a CPU's free list
 * @depth: the length of the free list from here
 * @bio: the bio, if @stale_work ends it
 * @inside: what says where it is in flight, if remap_end_inside() ends the bio
 * @stale_work: ends the bio, if that can't be done at once
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
	struct remap *next;
	unsigned int depth;
	/* As a rule nobody needs what follows. */
	struct bio *bio;
	struct floop_inside_io inside;
	struct work_struct stale_work;
};

/*
 * Per-CPU free lists: the slab and the mempool take ten times the instructions.
 * Interrupts push at any time, but only tasks pop, with preemption off. So if
 * the same entry is still on top, the same entry is still below it.
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
	 * Refill the reserve first. The barrier is that of mempool_free(): if
	 * this entry came out of the reserve, the reserve is seen to lack it.
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

/* Undo remap_alloc() and remap_freeze_get(). Keeps the guard's reference. */
static inline void remap_release(struct remap *remap)
{
	remap_freeze_put(remap);
	remap_free(remap->image, remap);
}

static void remap_end_inside(struct bio *bio);

static void remap_finish(struct bio *bio)
{
	struct remap *remap = bio->bi_private;

	bio->bi_end_io = remap->end_io;
	bio->bi_private = remap->private;
	bio->bi_bdev = remap->bdev;
	bio->bi_iter = remap->iter;
	/* The disk has traced its completion; trace the device's, too. */
	bio_set_flag(bio, BIO_TRACE_COMPLETION);
	/* rq_qos_done_bio() has run for the disk, and must run only once. */
	bio->bi_flags &= ~(BIT(BIO_QOS_THROTTLED) | BIT(BIO_QOS_MERGED));
	if (remap->start && bio_sectors(bio))
		bdev_end_io_acct(bio->bi_bdev, bio_op(bio), bio_sectors(bio),
				 remap->start);
	if (unlikely(remap->flushes))
		floop_io_count_flush(bio, remap->start);
	if (unlikely(bio->bi_status))
		floop_io_failed(remap->image, bio, bio->bi_status);
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
 * Another task has read the image through its page cache during the write, so
 * the pages may hold older data. Drop them before the write completes, as after
 * every direct write. That can't be done in an interrupt.
 */
static void stale_work(struct work_struct *work)
{
	struct remap *remap = container_of(work, struct remap, stale_work);
	struct floop_guard *guard = &remap->image->guard;
	loff_t pos = remap->image->offset +
		     ((loff_t)remap->iter.bi_sector << SECTOR_SHIFT);
	unsigned int memflags;

	/* The guard is held: memory must not come from I/O to the device. */
	memflags = memalloc_noio_save();
	if (remap_is_stale(remap, remap->bio))
		floop_cache_drop_range(remap->image, pos,
				       remap->iter.bi_size);
	/* Nothing else drops the others if this is the last I/O. */
	if (floop_guard_has_pages(guard))
		floop_guard_doubt(remap->image);
	memalloc_noio_restore(memflags);
	floop_window(FLOOP_WINDOW_END);
	/* A write of a part of a block would write the old pages back. */
	if (remap->bio->bi_end_io == remap_end_inside)
		floop_shared_end(&remap->image->shared, &remap->inside);
	remap_finish(remap->bio);
	percpu_ref_put(&guard->users);
}

/* Is it to end in a work? */
static inline bool remap_ends_later(struct remap *remap, struct bio *bio)
{
	if (likely(!remap_is_stale(remap, bio)) &&
	    !floop_window_is_open(FLOOP_WINDOW_END))
		return false;
	if (bio->bi_end_io == remap_end_inside)
		floop_shared_widen(remap->image, &remap->inside);
	/* The disk has the data: a freeze needn't wait longer. */
	remap_freeze_put(remap);
	remap->bio = bio;
	INIT_WORK(&remap->stale_work, stale_work);
	floop_lane_stale(remap->image->lanes, &remap->stale_work);
	return true;
}

static void remap_end(struct bio *bio)
{
	struct remap *remap = bio->bi_private;
	struct floop_guard *guard = &remap->image->guard;

	if (remap_ends_later(remap, bio))
		return;
	remap_finish(bio);
	/*
	 * Last: without the reference the image may be gone, and with it the
	 * bio set that the bio came from.
	 */
	percpu_ref_put(&guard->users);
}

/* As remap_end(), of a file that shares blocks. */
static void remap_end_inside(struct bio *bio)
{
	struct remap *remap = bio->bi_private;
	struct floop_guard *guard = &remap->image->guard;

	if (remap_ends_later(remap, bio))
		return;
	floop_shared_end(&remap->image->shared, &remap->inside);
	remap_finish(bio);
	percpu_ref_put(&guard->users);
}

/*
 * Take freeze protection of the file system below, as every write to it does.
 * Returns false if it is frozen, or has become read-only.
 */
static bool remap_freeze_get(struct floop_image *image)
{
	struct super_block *sb = file_inode(image->file)->i_sb;

	if (unlikely(sb_rdonly(sb)) || unlikely(!sb_start_write_trylock(sb)))
		return false;
	/* Released at completion by any task; tell lockdep, as AIO does. */
	__sb_writers_release(sb, SB_FREEZE_WRITE);
	floop_times_wrote(&image->times);
	return true;
}

/*
 * Refuse the writes to a disk that blkdev_write_iter() refuses: submit_bio()
 * doesn't check.
 */
static bool disk_refuses(struct floop_image *image)
{
	return bdev_read_only(image->guard.disk) ||
	       IS_SWAPFILE(image->guard.mapping->host);
}

/*
 * Would a disk with a virt_boundary (NVMe) have to split the bio inside a
 * block? In 7.3 (not in 6.12) a block of a direct I/O may be in several pieces,
 * and the disk refuses those with a gap between them. A block of 512 bytes is
 * in one piece (dma_alignment).
 */
static noinline bool has_gap(struct floop_image *image, struct bio *bio)
{
	unsigned int mask = image->guard.gap_mask, end = 0, done = 0;
	struct bvec_iter iter;
	struct bio_vec vec;

	bio_for_each_bvec(vec, bio, iter) {
		if (done % image->rules.align && (end | vec.bv_offset) & mask)
			return true;
		end = vec.bv_offset + vec.bv_len;
		done += vec.bv_len;
	}
	return false;
}

/* May this bio be served in parts? Not if it has to be served as a whole. */
static bool may_split(struct bio *bio)
{
	return !(bio->bi_opf & (REQ_NOWAIT | REQ_PREFLUSH | REQ_ATOMIC));
}

/*
 * Split off the first @nr sectors of a bio. The rest is submitted again, and
 * comes back here after the front. Without memory all of the bio goes through
 * the file system. Waiting for memory with a reference of the guard could
 * deadlock with other bios that do the same.
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

/* A place where there may be spare blocks. Out of line, and short by itself. */
static noinline sector_t remap_whole(struct floop_image *image,
				     sector_t sector, sector_t nr, bool write)
{
	sector_t disk = floop_map_cached_whole(&image->guard.map, sector, nr,
					       write);

	if (unlikely(disk == FLOOP_NOWHERE))
		floop_spare_tidy(&image->spare);
	return disk;
}

/* Look a bio up in the map, and split off its contiguous or unmapped front. */
static noinline sector_t remap_find(struct floop_image *image, struct bio **bio,
				    sector_t sector)
{
	bool write = op_is_write(bio_op(*bio)), mapped;
	struct floop_map *map = &image->guard.map;
	sector_t nr = bio_sectors(*bio), disk, end;
	struct bio *front;

	mapped = floop_map_find(map, sector, write ? nr : 0, &disk, &end);
	if (end - sector < nr) {
		front = may_split(*bio) ?
			remap_split(image, *bio, end - sector) : NULL;
		if (!front)
			return FLOOP_NOWHERE;
		*bio = front;
	}
	return mapped ? disk : FLOOP_NOWHERE;
}

/* The disk's sector for a bio, or FLOOP_NOWHERE. Without data: any. */
static sector_t remap_place(struct floop_image *image, struct bio **bio)
{
	sector_t sector = (image->offset >> SECTOR_SHIFT) +
		       (*bio)->bi_iter.bi_sector;
	sector_t nr = bio_sectors(*bio), disk;

	if (!nr)
		return 0;
	disk = floop_map_cached(&image->guard.map, sector, nr);
	if (unlikely(disk == FLOOP_NOWHERE) && floop_spare_any(&image->spare))
		disk = remap_whole(image, sector, nr,
				   op_is_write(bio_op(*bio)));
	if (likely(disk != FLOOP_NOWHERE))
		return disk;
	/* The blocks of a file that shares some are all in another map. */
	return READ_ONCE(image->guard.map.extents) ?
	       remap_find(image, bio, sector) : FLOOP_NOWHERE;
}

/*
 * A chained parent completes after its children. One of them may go through the
 * file system, and block on a change of the image, which waits for mapped I/O
 * to drain. So the mapped part gets a bio of its own, which ends by itself.
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

static __always_inline void remap_submit(struct floop_image *image,
					 struct bio *bio, struct remap *remap,
					 sector_t disk, bio_end_io_t *end_io)
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

	bio->bi_end_io = end_io;
	bio->bi_private = remap;
	bio->bi_iter.bi_sector = disk;
	/* Have the disk count it for the cgroup, too. */
	bio_clear_flag(bio, BIO_CGROUP_ACCT);
	bio_set_dev(bio, image->guard.disk);
	submit_bio_noacct(bio);
}

/*
 * Of a flush or a write with REQ_FUA: will its data be found after a crash? Not
 * if a chunk may be in the map that an fsync has yet to make durable.
 */
static noinline bool is_durable_there(struct floop_image *image, blk_opf_t opf)
{
	/* After the lookup, see floop_fill_now(). */
	smp_rmb();
	if (opf & REQ_FUA && READ_ONCE(image->ahead.undurable) !=
			     READ_ONCE(image->ahead.durable))
		return false;
	if (opf & REQ_PREFLUSH) {
		floop_times_touch(image);
		floop_io_check_policy(image->dev);
	}
	return true;
}

/* Send a bio to the disk. Returns why that can't be done. */
static __always_inline enum floop_cause
remap_send(struct floop_image *image, struct bio **bio, struct remap *remap,
	   sector_t disk, bio_end_io_t *end_io)
{
	blk_opf_t opf = (*bio)->bi_opf;

	remap->image = image;
	remap->freeze_held = false;
	if (op_is_write(opf) && !image->is_bdev && bio_sectors(*bio) &&
	    floop_rule_holds(FLOOP_RULE_FREEZE)) {
		if (!remap_freeze_get(image))
			return FLOOP_CAUSE_FROZEN;
		remap->freeze_held = true;
	}
	if (opf & (REQ_PREFLUSH | REQ_FUA) && !is_durable_there(image, opf))
		return FLOOP_CAUSE_FLUSH;
	if (unlikely(bio_flagged(*bio, BIO_CHAIN))) {
		struct bio *clone = remap_unchain(image, *bio);

		if (!clone)
			return FLOOP_CAUSE_MEMORY;
		*bio = clone;
	}
	floop_window(FLOOP_WINDOW_SUBMIT);
	remap_submit(image, *bio, remap, disk, end_io);
	return FLOOP_CAUSE_NONE;
}

/* Out of line: the mapped path stays short. */
static noinline enum floop_cause not_mapped(struct floop_guard *guard,
					    enum floop_cause cause)
{
	percpu_ref_put(&guard->users);
	return cause;
}

static noinline enum floop_cause not_sent(struct remap *remap,
					  enum floop_cause cause)
{
	struct floop_image *image = remap->image;

	remap_release(remap);
	return not_mapped(&image->guard, cause);
}

static bool may_be_slow(struct bio *bio)
{
	int ioprio = bio->bi_ioprio;

	/* As the disk takes it, see blk_mq_submit_bio(). */
	if (IOPRIO_PRIO_CLASS(ioprio) == IOPRIO_CLASS_NONE)
		ioprio = get_current_ioprio();
	return floop_io_may_be_slow(bio, ioprio);
}

/*
 * As floop_remap(), of a file that shares blocks. Keeps the guard's reference
 * unless the bio is sent.
 */
static enum floop_cause remap_shared(struct floop_image *image,
				     struct bio **bio)
{
	enum floop_cause cause = FLOOP_CAUSE_BLOCKS;
	bool write = op_is_write(bio_op(*bio));
	struct floop_inside_io *io;
	struct bio *front = *bio;
	struct remap *remap;
	sector_t disk, nr;

	if (may_be_slow(front))
		return cause;
	remap = remap_alloc(image);
	if (!remap)
		return FLOOP_CAUSE_MEMORY;
	io = &remap->inside;
	io->range.sector = (image->offset >> SECTOR_SHIFT) +
			   front->bi_iter.bi_sector;
	io->range.end = io->range.sector + bio_sectors(front);
	if (!floop_shared_begin(image, io, write, &disk)) {
		remap_free(image, remap);
		return cause;
	}
	if (write)
		floop_spare_forget(&image->spare, io->range.sector,
				   io->range.end);
	nr = io->range.end - io->range.sector;
	if (nr < bio_sectors(front))
		front = may_split(front) ? remap_split(image, front, nr) : NULL;
	if (front) {
		*bio = front;
		cause = remap_send(image, bio, remap, disk, remap_end_inside);
		if (cause == FLOOP_CAUSE_NONE)
			return cause;
		remap_freeze_put(remap);
	}
	floop_shared_end(&image->shared, &remap->inside);
	remap_free(image, remap);
	return cause;
}

/*
 * What isn't in the map may be in that of a file that shares blocks, or a hole,
 * which needs no disk.
 */
static noinline enum floop_cause not_in_map(struct floop_image *image,
					    struct bio **rest)
{
	struct floop_guard *guard = &image->guard;
	struct bio *bio = *rest;
	sector_t sector = (image->offset >> SECTOR_SHIFT) +
			  bio->bi_iter.bi_sector;
	enum floop_cause cause = FLOOP_CAUSE_BLOCKS;

	if (READ_ONCE(image->shared.map.extents)) {
		cause = remap_shared(image, rest);
		if (cause == FLOOP_CAUSE_NONE)
			return cause;
		if (cause != FLOOP_CAUSE_BLOCKS)
			return not_mapped(guard, cause);
	}
	floop_fill_missed(image, sector);
	if (!floop_holes_have(image, sector, bio_sectors(bio))) {
		if (READ_ONCE(image->fill.shared))
			cause = FLOOP_CAUSE_SHARED;
	} else if (bio_op(bio) == REQ_OP_READ && floop_holes_read(image, bio)) {
		cause = FLOOP_CAUSE_NONE;
	} else {
		cause = floop_kinds_cause(image, sector, bio_sectors(bio));
	}
	return not_mapped(guard, cause);
}

/**
 * floop_remap() - send a bio to the disk, if it is mapped
 * @image: the image
 * @bio: a read, a write or a flush. If only its front is contiguous, the rest
 *	is submitted again and @bio is set to the front, mapped or not
 *
 * Context: Process context, in ->submit_bio. Doesn't sleep.
 * Return: %FLOOP_CAUSE_NONE, also for the read of a hole, which has ended; or
 * why it has to go through the file system.
 */
enum floop_cause floop_remap(struct floop_image *image, struct bio **bio)
{
	struct floop_guard *guard = &image->guard;
	blk_opf_t opf = (*bio)->bi_opf;
	enum floop_cause cause;
	struct remap *remap;
	sector_t disk;

	if (!percpu_ref_tryget_live(&guard->users))
		return FLOOP_CAUSE_EPOCH;
	/* Don't read the map before the reference is held. */
	smp_acquire__after_ctrl_dep();
	if (unlikely(floop_guard_flags_changed(guard)) ||
	    unlikely(floop_guard_has_pages(guard))) {
		floop_guard_doubt(image);
		return not_mapped(guard, FLOOP_CAUSE_CACHE);
	}
	/* An fsync has to cover the writes through the file system. */
	if ((opf & REQ_PREFLUSH) && READ_ONCE(image->sync) != FLOOP_SYNCED &&
	    floop_rule_holds(FLOOP_RULE_FLUSH))
		return not_mapped(guard, FLOOP_CAUSE_FLUSH);
	if (((opf & REQ_NOWAIT) && !bdev_nowait(guard->disk)) ||
	    (op_is_write(opf) && image->is_bdev && bio_sectors(*bio) &&
	     unlikely(disk_refuses(image))))
		return not_mapped(guard, FLOOP_CAUSE_DISK);
	if (unlikely(guard->gap_mask) && has_gap(image, *bio))
		return not_mapped(guard, FLOOP_CAUSE_ALIGNMENT);
	disk = remap_place(image, bio);
	if (disk == FLOOP_NOWHERE)
		return not_in_map(image, bio);

	/* Don't wait for memory while the guard is held: take the file path. */
	remap = remap_alloc(image);
	if (unlikely(!remap))
		return not_mapped(guard, FLOOP_CAUSE_MEMORY);
	cause = remap_send(image, bio, remap, disk, remap_end);
	return likely(cause == FLOOP_CAUSE_NONE) ? cause :
						   not_sent(remap, cause);
}

/**
 * floop_remap_init_image() - prepare an image's reserves
 * @image: the image
 *
 * Context: Process context. May sleep.
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
 *
 * Context: Process context. May sleep.
 */
void floop_remap_exit_image(struct floop_image *image)
{
	bioset_exit(&image->splits);
	mempool_exit(&image->remaps);
}

/**
 * floop_remap_init() - set up the cache that all images share
 *
 * Context: Process context. May sleep.
 * Return: 0 or -ENOMEM.
 */
int floop_remap_init(void)
{
	remap_cache = kmem_cache_create("floop_remap",
					sizeof(struct remap), 0,
					SLAB_HWCACHE_ALIGN, NULL);
	return remap_cache ? 0 : -ENOMEM;
}

/**
 * floop_remap_exit() - undo floop_remap_init()
 *
 * Context: Process context. May sleep.
 */
void floop_remap_exit(void)
{
	free_lists_drain();
	kmem_cache_destroy(remap_cache);
}
