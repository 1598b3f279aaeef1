// SPDX-License-Identifier: GPL-2.0
/*
 * The chunks that allocate ahead. A chunk is a write to a hole with zeroes
 * around it, in one call to the file system. It is mapped as soon as it is
 * written. ahead.c decides which writes become chunks, and how large.
 *
 * Zeroes may only be written where nobody else writes:
 *
 *  - The chunk covers a hole, as the file system reports it, and nothing else.
 *  - No other write of ours there is in flight: each is in a list. What comes
 *    later is parked until the chunk has ended. A discard leaves zeroes behind,
 *    as a chunk does. ext4 and xfs do one after the other: ->fallocate() waits
 *    for direct I/O (inode_dio_wait()).
 *  - Nobody else has the image open to write: a chunk begins in an epoch, and
 *    holds up whoever opens the image to write until it has ended
 *    (floop_guard_ahead_begin()).
 *
 * An opener may hold what others wait for: truncate(2) keeps the file system
 * from being frozen. So on the way to its end a chunk waits for the inode's
 * lock and the disk only: it has freeze protection before it is written, and
 * ends where its I/O ends. If that is early, the write is done again by itself.
 *
 * The chunk is mapped before an fsync has made it durable, so a mapped write
 * may be found only after an fsync. A flush after the chunk is an fsync anyway
 * (FLOOP_UNSYNCED), and a write with REQ_FUA takes the file path until then
 * (is_durable_there() in remap.c). Whose block it is after a crash makes no
 * difference: the file system itself has written our data to it, before the
 * allocation was durable.
 */
#include <linux/bio.h>
#include <linux/blkdev.h>
#include <linux/fs.h>
#include <linux/gfp.h>
#include <linux/sched/mm.h>
#include <linux/sizes.h>
#include <linux/slab.h>

#include "ahead.h"
#include "ask.h"
#include "chunk.h"
#include "device.h"
#include "fill.h"
#include "guard.h"
#include "hole.h"
#include "image.h"
#include "io.h"
#include "lane.h"
#include "rules.h"
#include "runs.h"
#include "spare.h"

/* Zeroes to write from, if there is memory; else a page of the kernel's. */
#define ZEROES_ORDER	get_order(SZ_64K)

/**
 * struct chunk - a write with zeroes around it
 * @bio: stands for all of it
 * @part: the write
 * @range: what the chunk covers, where nobody else may write
 * @parked: I/O that waits for the chunk
 * @epoch: in which the chunk has begun
 * @vecs: zeroes, data, zeroes
 */
struct chunk {
	struct bio bio;
	struct floop_io *part;
	struct floop_range range;
	struct llist_node *parked;
	unsigned long epoch;
	struct bio_vec vecs[];
};

static struct page *zeroes;
static unsigned int zeroes_bytes = PAGE_SIZE;

static sector_t block_sectors(struct floop_image *image)
{
	return i_blocksize(file_inode(image->file)) >> SECTOR_SHIFT;
}

/**
 * floop_chunk_enter() - a write is about to begin
 * @io: the I/O; gone if it has to wait for a chunk
 *
 * Context: A worker of the image. Doesn't sleep.
 * Return: true: call floop_chunk_leave() when it has ended; false: it is served
 * again after the chunk.
 */
bool floop_chunk_enter(struct floop_io *io)
{
	struct floop_ahead *ahead = &io->image->ahead;
	struct chunk *chunk;

	if (io->flags & FLOOP_IO_AHEAD)
		return true;
	io->range.sector = floop_rw_sector(io);
	io->range.end = floop_rw_sector_end(io);
	floop_spare_forget(&io->image->spare, io->range.sector, io->range.end);
	if (ahead->allocate == FLOOP_ALLOCATE_OFF)
		return true;
	spin_lock_irq(&ahead->lock);
	list_for_each_entry(chunk, &ahead->chunks, range.node) {
		if (!floop_range_overlaps(&chunk->range, io->range.sector,
					  io->range.end))
			continue;
		io->node.next = chunk->parked;
		chunk->parked = &io->node;
		WRITE_ONCE(ahead->waited, ahead->waited + 1);
		spin_unlock_irq(&ahead->lock);
		return false;
	}
	list_add(&io->range.node, &ahead->ranges);
	io->flags |= FLOOP_IO_ENTERED;
	spin_unlock_irq(&ahead->lock);
	return true;
}

/**
 * floop_chunk_leave() - undo floop_chunk_enter()
 * @io: the I/O, or the rest of one
 *
 * Context: Any, interrupts included.
 */
void floop_chunk_leave(struct floop_io *io)
{
	struct floop_ahead *ahead = &io->image->ahead;
	unsigned long flags;

	if (!(io->flags & FLOOP_IO_ENTERED))
		return;
	spin_lock_irqsave(&ahead->lock, flags);
	list_del(&io->range.node);
	io->flags &= ~FLOOP_IO_ENTERED;
	spin_unlock_irqrestore(&ahead->lock, flags);
}

/*
 * Take the range of a chunk away from all other I/O. It ends where others are
 * writing. Returns false if they write where the data goes, from @sector to
 * @end.
 */
static bool take_range(struct floop_ahead *ahead, struct floop_range *range,
		       sector_t sector, sector_t end)
{
	struct list_head *lists[] = { &ahead->ranges, &ahead->chunks };
	struct floop_range *other;
	bool taken = false;
	int i;

	spin_lock_irq(&ahead->lock);
	for (i = 0; i < ARRAY_SIZE(lists); i++) {
		list_for_each_entry(other, lists[i], node) {
			if (floop_range_overlaps(other, sector, end))
				goto unlock;
			/* Before it no hole is known where others write. */
			if (other->sector >= end)
				range->end = min(range->end, other->sector);
		}
	}
	list_add(&range->node, &ahead->chunks);
	taken = true;
unlock:
	spin_unlock_irq(&ahead->lock);
	return taken;
}

/* Let I/O go on that waits for the chunk. */
static void untake_range(struct floop_ahead *ahead, struct chunk *chunk)
{
	struct llist_node *parked;
	unsigned long flags;

	spin_lock_irqsave(&ahead->lock, flags);
	list_del(&chunk->range.node);
	parked = chunk->parked;
	spin_unlock_irqrestore(&ahead->lock, flags);
	while (parked) {
		struct floop_io *io = llist_entry(parked, struct floop_io,
						  node);

		parked = parked->next;
		floop_worker_requeue(io);
	}
}

/* Is the block at @sector in a hole? SEEK_HOLE says so at once. */
static bool is_hole(struct floop_image *image, sector_t sector)
{
	loff_t pos = (loff_t)sector << SECTOR_SHIFT;

	return vfs_llseek(image->file, pos, SEEK_HOLE) == pos;
}

/*
 * Begin a range where a hole is known to begin, and end it where data begins.
 * Returns false if there is some from @sector to @end, the blocks of a write:
 * then it goes to other blocks than those of a hole. To SEEK_DATA, what is
 * allocated and not written is a hole as well. It goes through all of that up
 * to the next data, so it isn't asked where a hole is known. Of the write's own
 * blocks that isn't known (floop_holes_write_begin()). If it has @whole blocks,
 * it makes no difference; else the first and the last one have to be holes.
 *
 * Data must not be in the page cache only. iomap looks for written blocks
 * first, and then for pages: what is written back and dropped in between is a
 * hole to it. Pages that come later have no data for this range, which is ours.
 */
static bool find_hole(struct floop_image *image, struct floop_range *range,
		      sector_t sector, sector_t end, bool whole)
{
	sector_t last = end - block_sectors(image);
	loff_t data;

	if (READ_ONCE(image->file->f_mapping->nrpages))
		return false;
	/* Before the file system looks. */
	smp_rmb();
	if (!whole && !(is_hole(image, sector) &&
			(last == sector || is_hole(image, last))))
		return false;
	range->sector = floop_holes_begin(image, range->sector, sector);
	if (floop_holes_end(image, end, range->end) == range->end)
		return true;
	data = vfs_llseek(image->file, (loff_t)sector << SECTOR_SHIFT,
			  SEEK_DATA);
	if (data == -ENXIO)
		return true;
	if (data < 0 || data >> SECTOR_SHIFT < end)
		return false;
	range->end = min_t(sector_t, range->end, data >> SECTOR_SHIFT);
	return true;
}

/* A part of a block would wait for all direct I/O in flight. */
static void to_blocks(struct floop_image *image, struct floop_range *range)
{
	sector_t block = block_sectors(image);

	range->sector = round_up(range->sector, block);
	range->end = round_down(range->end, block);
}

static unsigned int count_zeroes(sector_t nr)
{
	return DIV_ROUND_UP_ULL((u64)nr << SECTOR_SHIFT, zeroes_bytes);
}

static void add_zeroes(struct bio *bio, sector_t nr)
{
	u64 bytes = (u64)nr << SECTOR_SHIFT;

	while (bytes) {
		unsigned int len = min_t(u64, bytes, zeroes_bytes);

		bvec_set_page(&bio->bi_io_vec[bio->bi_vcnt++], zeroes, len, 0);
		bio->bi_iter.bi_size += len;
		bytes -= len;
	}
}

static unsigned int count_data(struct bio *data)
{
	struct bvec_iter iter;
	struct bio_vec vec;
	unsigned int nr = 0;

	bio_for_each_bvec(vec, data, iter)
		nr++;
	return nr;
}

static void add_data(struct bio *bio, struct bio *data)
{
	struct bvec_iter iter;
	struct bio_vec vec;

	bio_for_each_bvec(vec, data, iter)
		bio->bi_io_vec[bio->bi_vcnt++] = vec;
	bio->bi_iter.bi_size += data->bi_iter.bi_size;
}

static struct chunk *next_written(struct floop_ahead *ahead)
{
	struct chunk *chunk;

	spin_lock_irq(&ahead->lock);
	chunk = list_first_entry_or_null(&ahead->written, struct chunk,
					 range.node);
	if (chunk)
		list_del(&chunk->range.node);
	spin_unlock_irq(&ahead->lock);
	return chunk;
}

/**
 * floop_chunk_map() - map the chunks that are written
 * @ask: the work of an image that does so
 *
 * Context: Process context. May sleep.
 */
void floop_chunk_map(struct floop_ask *ask)
{
	struct floop_ahead *ahead = &ask->image->ahead;
	unsigned int memflags = memalloc_noio_save();
	struct chunk *chunk;
	int err = 0;

	while (err != -ECANCELED && (chunk = next_written(ahead))) {
		floop_window(FLOOP_WINDOW_CHUNK);
		err = floop_fill_now(ask, chunk->range.sector,
				     chunk->range.end - chunk->range.sector,
				     chunk->epoch);
		/* It may never say: shared blocks on xfs. */
		if (err == -ENODATA)
			WRITE_ONCE(ahead->useless, chunk->epoch);
		kfree(chunk);
		cond_resched();
	}
	memalloc_noio_restore(memflags);
}

/**
 * floop_chunk_forget() - map no more of the chunks that are written
 * @ahead: of an image with no I/O in flight, whose work has stopped
 *
 * Context: Any.
 */
void floop_chunk_forget(struct floop_ahead *ahead)
{
	struct chunk *chunk;

	while ((chunk = next_written(ahead)))
		kfree(chunk);
}

/*
 * A chunk has ended: what waits for it goes on. It isn't needed to be mapped
 * for that, so nothing here waits.
 */
static void chunk_end_io(struct bio *bio)
{
	struct chunk *chunk = container_of(bio, struct chunk, bio);
	bool done = bio->bi_status == BLK_STS_OK;
	struct floop_io *part = chunk->part;
	struct floop_image *image = part->image;
	struct floop_ahead *ahead = &image->ahead;
	unsigned long flags;

	bio_uninit(bio);
	if (!done)
		floop_spare_forget(&image->spare, chunk->range.sector,
				   chunk->range.end);
	floop_guard_ahead_end(image);
	untake_range(ahead, chunk);
	if (done) {
		spin_lock_irqsave(&ahead->lock, flags);
		list_add_tail(&chunk->range.node, &ahead->written);
		spin_unlock_irqrestore(&ahead->lock, flags);
		floop_ask_queue(ahead->ask, 0);
		/* It holds the image. */
		floop_io_end(part, BLK_STS_OK, NULL);
	} else {
		kfree(chunk);
		floop_runs_no_room(image);
		part->flags |= FLOOP_IO_NOMERGE | FLOOP_IO_PLAIN;
		floop_worker_requeue(part);
	}
}

static void fill_bio(struct chunk *chunk, struct floop_io *io,
		     unsigned int vecs)
{
	sector_t sector = floop_rw_sector(io), end = floop_rw_sector_end(io);
	struct bio *bio = &chunk->bio, *data = io->bio;
	sector_t before = sector - chunk->range.sector;
	sector_t behind = chunk->range.end - end;

	bio_init(bio, data->bi_bdev, chunk->vecs, vecs, data->bi_opf);
	bio_clone_blkg_association(bio, data);
	bio->bi_ioprio = data->bi_ioprio;
	bio->bi_iter.bi_sector = data->bi_iter.bi_sector - before;
	bio->bi_end_io = chunk_end_io;
	add_zeroes(bio, before);
	add_data(bio, data);
	add_zeroes(bio, behind);
	io->image->ahead.bytes += (before + behind) << SECTOR_SHIFT;
	/* Somebody else may have freed what was spare there. */
	floop_spare_forget(&io->image->spare, sector, end);
	floop_spare_add(&io->image->spare, chunk->range.sector, sector);
	floop_spare_add(&io->image->spare, end, chunk->range.end);
}

/**
 * floop_chunk_make() - make a chunk of a write
 * @io: the write
 * @range: what to allocate, @io included; it may get shorter
 *
 * Takes the range: other I/O there waits until the chunk has ended.
 *
 * Context: The writer of the image. May sleep.
 * Return: the I/O to serve instead, or NULL if it can't be done now.
 */
struct floop_io *floop_chunk_make(struct floop_io *io,
				  struct floop_range *range)
{
	struct floop_image *image = io->image;
	sector_t sector = floop_rw_sector(io), end = floop_rw_sector_end(io);
	unsigned int vecs = count_data(io->bio) +
			    count_zeroes(sector - range->sector) +
			    count_zeroes(range->end - end);
	struct floop_io *chunk_io;
	struct chunk *chunk;
	bool whole;

	/* Of blocks that have a part of the data, all is written. */
	sector = round_down(sector, block_sectors(image));
	end = round_up(end, block_sectors(image));
	whole = end - sector == bio_sectors(io->bio);

	chunk = kmalloc(struct_size(chunk, vecs, vecs),
			GFP_NOWAIT | __GFP_NOWARN);
	if (!chunk)
		return NULL;
	chunk_io = mempool_alloc(&image->ios, GFP_NOWAIT | __GFP_NOWARN);
	if (!chunk_io)
		goto free;
	chunk->part = io;
	chunk->parked = NULL;
	chunk->range = *range;
	if (!take_range(&image->ahead, &chunk->range, sector, end))
		goto free_io;
	if (!floop_guard_ahead_begin(image, &chunk->epoch))
		goto untake;
	/* Nobody else writes there from here on. */
	*range = chunk->range;
	to_blocks(image, range);
	/* The device or the file may begin or end inside of a block. */
	if (range->sector > sector || range->end < end ||
	    chunk->epoch == READ_ONCE(image->ahead.useless) ||
	    !find_hole(image, range, sector, end, whole) ||
	    range->end - range->sector <= bio_sectors(io->bio))
		goto guard;
	/*
	 * It reads as a hole, but is none for the next chunk: what is mapped of
	 * this one by then may have been written to.
	 */
	floop_holes_remove(image, range->sector, range->end - range->sector);
	spin_lock_irq(&image->ahead.lock);
	chunk->range.sector = range->sector;
	chunk->range.end = range->end;
	spin_unlock_irq(&image->ahead.lock);
	fill_bio(chunk, io, vecs);
	*chunk_io = (struct floop_io) {
		.bio = &chunk->bio,
		.image = image,
		.flags = FLOOP_IO_NOMERGE | FLOOP_IO_MERGED | FLOOP_IO_AHEAD,
	};
	percpu_ref_get(&image->dev->disk->queue->q_usage_counter);
	return chunk_io;

guard:
	floop_guard_ahead_end(image);
untake:
	untake_range(&image->ahead, chunk);
free_io:
	mempool_free(chunk_io, &image->ios);
free:
	kfree(chunk);
	return NULL;
}

/**
 * floop_chunk_init() - set up the zeroes that all images share
 *
 * Context: Process context. May sleep.
 */
void floop_chunk_init(void)
{
	zeroes = alloc_pages(GFP_KERNEL | __GFP_ZERO | __GFP_COMP |
			     __GFP_NOWARN, ZEROES_ORDER);
	if (zeroes)
		zeroes_bytes = PAGE_SIZE << ZEROES_ORDER;
	else
		zeroes = ZERO_PAGE(0);
}

/**
 * floop_chunk_exit() - undo floop_chunk_init()
 *
 * Context: Process context. May sleep.
 */
void floop_chunk_exit(void)
{
	if (zeroes != ZERO_PAGE(0))
		__free_pages(zeroes, ZEROES_ORDER);
}
