// SPDX-License-Identifier: GPL-2.0
/*
 * Reads of holes. The fill (fill.c) asks the file system where data is. Where
 * there is none, in a hole or in unwritten blocks, reads return zeroes until
 * somebody writes. In an epoch nobody else can, and our own writes go through
 * the file system there, for nothing of a hole is in the map. So a read of a
 * known hole is answered in its submitter's context, without the file system.
 *
 * Three things keep that true:
 *  - Holes are known for an epoch. They are cleared with the map.
 *  - A write through the file system takes its range out before it begins. The
 *    fill adds a hole only if no write was in flight when it asked, and none
 *    has begun since. The page cache had no page of the file, either: a write
 *    may have ended there (xfs does less than a block of a file that shares
 *    blocks buffered). SEEK_DATA looks at the extents first and at the pages
 *    afterwards, so it misses what is written back between the two.
 *  - What goes into the map is taken out, as mapped writes don't look here.
 *
 * A hole is known in granules, whole ones only.
 */
#include <linux/bio.h>
#include <linux/bitmap.h>
#include <linux/blkdev.h>
#include <linux/slab.h>

#include "hole.h"
#include "image.h"
#include "io.h"
#include "mask.h"
#include "rules.h"
#include "trace.h"

#define MIN_GRANULE_SHIFT	3U		/* 4 KiB */
#define MAX_GRANULES		BIT(21)		/* 256 KiB of bits */
/* A longer read goes through the file system: zeroing takes time. */
#define MAX_READ		(4U << 20)	/* bytes */
/* How many granules are added without a write being able to begin */
#define PIECE			4096UL

/*
 * Readers have no lock, so each word is written at once. Returns how many bits
 * weren't as they are to be.
 */
static unsigned long change_bits(unsigned long *bits, unsigned long first,
				 unsigned long end, bool set)
{
	unsigned long changed = 0;

	while (first < end) {
		unsigned long *word = &bits[BIT_WORD(first)];
		unsigned long mask = floop_take_mask(&first, end);
		unsigned long new = set ? *word | mask : *word & ~mask;

		changed += hweight_long(*word ^ new);
		WRITE_ONCE(*word, new);
	}
	return changed;
}

static struct floop_hole_bits *get_bits(struct floop_holes *holes)
{
	return rcu_dereference_protected(holes->bits,
					 lockdep_is_held(&holes->lock));
}

/* The granules that have a part of a range. */
static void granules(const struct floop_hole_bits *bits, sector_t sector,
		     sector_t nr, unsigned long *first, unsigned long *end)
{
	*first = min_t(sector_t, sector >> bits->shift, bits->nr);
	*end = min_t(sector_t, ((sector + nr - 1) >> bits->shift) + 1,
		     bits->nr);
}

/* With the lock held. */
static void forget(struct floop_holes *holes, sector_t sector, sector_t nr)
{
	struct floop_hole_bits *bits = get_bits(holes);
	unsigned long first, end;

	if (!bits)
		return;
	granules(bits, sector, nr, &first, &end);
	change_bits(bits->bits, first, end, false);
}

/* With the lock held: a write that begins may move what is in the map. */
static void note_moved(struct floop_holes *holes, sector_t sector, sector_t nr)
{
	struct floop_hole_bits *bits = get_bits(holes);
	unsigned long first, end;

	if (!bits)
		return;
	granules(bits, sector, nr, &first, &end);
	WRITE_ONCE(holes->nr_moved, holes->nr_moved +
		   change_bits(bits->moved, first, end, true));
}

/**
 * floop_holes_init_image() - prepare an image's holes
 * @image: the image
 *
 * Context: Any.
 */
void floop_holes_init_image(struct floop_image *image)
{
	spin_lock_init(&image->holes.lock);
	image->holes.nr_moved = 1;
}

/**
 * floop_holes_start() - prepare to know the holes of a file
 * @image: the image
 * @sectors: how much of it is looked up, in sectors; a whole number of blocks.
 *	Nothing behind that is in a map
 *
 * Without memory no hole is known.
 *
 * Context: Process context. May sleep.
 */
void floop_holes_start(struct floop_image *image, sector_t sectors)
{
	/* A write of a part of a block moves all of a shared one. */
	unsigned int shift = max_t(unsigned int, MIN_GRANULE_SHIFT,
				   file_inode(image->file)->i_blkbits -
				   SECTOR_SHIFT);
	struct floop_hole_bits *bits;
	unsigned long nr;

	while (sectors >> shift > MAX_GRANULES)
		shift++;
	/* The last one may be a part: it is no hole, but may have moved. */
	nr = (sectors + BIT(shift) - 1) >> shift;
	bits = kvzalloc(struct_size(bits, bits, 2 * BITS_TO_LONGS(nr)),
			GFP_KERNEL);
	if (!bits)
		return;
	bits->moved = bits->bits + BITS_TO_LONGS(nr);
	bits->nr = nr;
	bits->shift = shift;
	spin_lock(&image->holes.lock);
	rcu_assign_pointer(image->holes.bits, bits);
	WRITE_ONCE(image->holes.nr_moved, 0);
	spin_unlock(&image->holes.lock);
}

/**
 * floop_holes_stop() - undo floop_holes_start()
 * @image: the image; if it is in use, writes to it go on to be counted
 *
 * Context: Process context. May sleep.
 */
void floop_holes_stop(struct floop_image *image)
{
	struct floop_holes *holes = &image->holes;
	struct floop_hole_bits *bits;

	spin_lock(&holes->lock);
	bits = rcu_replace_pointer(holes->bits, NULL,
				   lockdep_is_held(&holes->lock));
	WRITE_ONCE(holes->nr_moved, 1);
	spin_unlock(&holes->lock);
	kvfree_rcu(bits, rcu);
}

/**
 * floop_holes_clear() - forget all holes
 * @image: an image with nothing in its map
 *
 * Context: Process context, with the map's lock held.
 */
void floop_holes_clear(struct floop_image *image)
{
	struct floop_holes *holes = &image->holes;
	struct floop_hole_bits *bits;

	spin_lock(&holes->lock);
	bits = get_bits(holes);
	if (bits)
		change_bits(bits->bits, 0, bits->nr, false);
	spin_unlock(&holes->lock);
}

/**
 * floop_holes_look() - before the file system is asked for a hole
 * @image: the image
 * @begun: set to the number of writes that have begun
 *
 * Context: Any.
 * Return: false if a write through the file system is in flight, or its data
 * may be in the page cache only.
 */
bool floop_holes_look(struct floop_image *image, unsigned long *begun)
{
	struct floop_holes *holes = &image->holes;
	/* First: if the two are the same, all that have begun have ended. */
	unsigned long ended = atomic_long_read_acquire(&holes->ended);

	*begun = READ_ONCE(holes->begun);
	/* Then: a write that has ended has left its pages. */
	smp_rmb();
	return *begun == ended && !READ_ONCE(image->file->f_mapping->nrpages);
}

/**
 * floop_holes_add() - add a hole that the file system has told of
 * @image: the image
 * @sector: the first sector of its file without data
 * @end: the first one behind it
 * @begun: from floop_holes_look(), before the file system was asked
 *
 * Context: Process context, in the epoch in which it was asked, with the map's
 * lock held.
 * Return: false if a write has begun since, so that not all of it was added.
 */
bool floop_holes_add(struct floop_image *image, sector_t sector, sector_t end,
		     unsigned long begun)
{
	struct floop_holes *holes = &image->holes;
	/* floop_fill_stop() waits for the fill before it takes them away. */
	struct floop_hole_bits *bits = rcu_dereference_protected(holes->bits,
								 true);
	sector_t first, last;
	bool same = true;

	if (!bits)
		return true;
	first = (sector + BIT(bits->shift) - 1) >> bits->shift;
	last = min_t(sector_t, end >> bits->shift, bits->nr);
	while (same && first < last) {
		unsigned long next = min_t(sector_t, first + PIECE, last);

		spin_lock(&holes->lock);
		same = holes->begun == begun;
		if (same)
			change_bits(bits->bits, first, next, true);
		spin_unlock(&holes->lock);
		first = next;
	}
	return same;
}

/**
 * floop_holes_remove() - forget holes
 * @image: the image
 * @sector: the first sector of its file that is about to go into the map
 * @nr: the number of sectors
 *
 * Context: Process context. Doesn't sleep.
 */
void floop_holes_remove(struct floop_image *image, sector_t sector, sector_t nr)
{
	struct floop_holes *holes = &image->holes;

	spin_lock(&holes->lock);
	forget(holes, sector, nr);
	spin_unlock(&holes->lock);
}

/**
 * floop_holes_write_begin() - before a write through the file system
 * @io: a write, about to be queued
 *
 * Context: Process context. Doesn't sleep.
 */
void floop_holes_write_begin(struct floop_io *io)
{
	struct floop_image *image = io->image;
	struct floop_holes *holes = &image->holes;
	struct bio *bio = io->bio;
	sector_t sector = (image->offset >> SECTOR_SHIFT) +
			  bio->bi_iter.bi_sector;
	sector_t last = floop_last_part(sector, bio_sectors(bio)), part;

	io->flags |= FLOOP_IO_WRITE_COUNTED;
	spin_lock(&holes->lock);
	holes->begun++;
	for (part = floop_first_part(sector); part <= last; part++)
		holes->part_begun[part % FLOOP_PARTS]++;
	if (floop_rule_holds(FLOOP_RULE_HOLES))
		forget(holes, sector, bio_sectors(bio));
	/* Nothing that it could move is in the map before this is known. */
	if (READ_ONCE(image->fill.shared) &&
	    floop_rule_holds(FLOOP_RULE_SHARED))
		note_moved(holes, sector, bio_sectors(bio));
	spin_unlock(&holes->lock);
}

/**
 * floop_holes_write_end() - after a write through the file system
 * @io: an I/O that has ended
 *
 * Context: Any, interrupts included.
 */
void floop_holes_write_end(struct floop_io *io)
{
	struct floop_holes *holes = &io->image->holes;
	struct bio *bio = io->bio;
	sector_t sector = (io->image->offset >> SECTOR_SHIFT) +
			  bio->bi_iter.bi_sector;
	sector_t last, part;

	if (!(io->flags & FLOOP_IO_WRITE_COUNTED))
		return;
	last = floop_last_part(sector, bio_sectors(bio));
	/* Before it is counted: the file system finds the data. */
	smp_mb__before_atomic();
	atomic_long_inc(&holes->ended);
	for (part = floop_first_part(sector); part <= last; part++)
		atomic_long_inc(&holes->part_ended[part % FLOOP_PARTS]);
}

/*
 * How far from @sector on, up to @end, is all a known hole, or has nothing been
 * moved? Returns @sector if it isn't, or if nothing is known.
 */
static sector_t reach(struct floop_image *image, sector_t sector, sector_t end,
		      bool hole)
{
	struct floop_hole_bits *bits;
	unsigned long first, last;
	sector_t reached = sector;

	rcu_read_lock();
	bits = rcu_dereference(image->holes.bits);
	if (bits && sector < end) {
		granules(bits, sector, end - sector, &first, &last);
		first = hole ? find_next_zero_bit(bits->bits, last, first) :
			       find_next_bit(bits->moved, last, first);
		reached = clamp((sector_t)first << bits->shift, sector, end);
	}
	rcu_read_unlock();
	return reached;
}

/**
 * floop_holes_have() - is all of a range a known hole?
 * @image: the image, in an epoch
 * @sector: the first sector of its file that isn't in the map
 * @nr: the number of sectors, not 0
 *
 * Context: Any. Doesn't sleep.
 * Return: true if the file has no data there.
 */
bool floop_holes_have(struct floop_image *image, sector_t sector, sector_t nr)
{
	return reach(image, sector, sector + nr, true) == sector + nr;
}

/**
 * floop_holes_end() - how far is a known hole known?
 * @image: the image, in an epoch
 * @sector: the first sector of its file that isn't in the map
 * @end: the first one that isn't of interest
 *
 * Context: Any. Doesn't sleep.
 * Return: the first sector that isn't known to be in a hole, at most @end;
 * @sector if it isn't itself.
 */
sector_t floop_holes_end(struct floop_image *image, sector_t sector,
			 sector_t end)
{
	return reach(image, sector, end, true);
}

/**
 * floop_holes_begin() - since where is a known hole known?
 * @image: the image, in an epoch
 * @sector: the first sector of its file that is of interest
 * @end: the first one behind the hole; a whole number of blocks
 *
 * Context: Any. Doesn't sleep.
 * Return: the first sector, from @sector on, behind which all is known to be in
 * a hole up to @end; @end if there is none.
 */
sector_t floop_holes_begin(struct floop_image *image, sector_t sector,
			   sector_t end)
{
	struct floop_hole_bits *bits;
	sector_t known = end;
	unsigned long first;

	rcu_read_lock();
	bits = rcu_dereference(image->holes.bits);
	if (bits && IS_ALIGNED(end, BIT(bits->shift)) &&
	    end >> bits->shift <= bits->nr) {
		first = end >> bits->shift;
		while (((sector_t)first << bits->shift) > sector &&
		       test_bit(first - 1, bits->bits))
			first--;
		known = clamp((sector_t)first << bits->shift, sector, end);
	}
	rcu_read_unlock();
	return known;
}

/**
 * floop_holes_unmoved() - how much of a range may no write have moved?
 * @image: the image, in an epoch
 * @sector: the first sector of its file
 * @nr: the number of sectors, not 0
 *
 * Context: Any. Doesn't sleep. What follows sees what preceded
 * floop_holes_settle().
 * Return: so many sectors from the first one on; 0 if that isn't known.
 */
sector_t floop_holes_unmoved(struct floop_image *image, sector_t sector,
			     sector_t nr)
{
	sector_t end = reach(image, sector, sector + nr, false);

	/* Pairs with smp_wmb() in floop_holes_settle(). */
	smp_rmb();
	return end - sector;
}

/**
 * floop_holes_moved() - find what writes may have moved
 * @image: the image
 * @sector: where to begin, in sectors of its file; set to the first such sector
 * @nr: set to the number of sectors, those of PIECE granules at most
 *
 * Context: The fill's work. Doesn't sleep.
 * Return: false if there is no more.
 */
bool floop_holes_moved(struct floop_image *image, sector_t *sector,
		       sector_t *nr)
{
	/* As in floop_holes_add() */
	struct floop_hole_bits *bits =
		rcu_dereference_protected(image->holes.bits, true);
	unsigned long first, end;

	if (!bits)
		return false;
	first = find_next_bit(bits->moved, bits->nr, *sector >> bits->shift);
	if (first >= bits->nr)
		return false;
	end = find_next_zero_bit(bits->moved, min(first + PIECE, bits->nr),
				 first);
	*sector = (sector_t)first << bits->shift;
	*nr = (sector_t)(end - first) << bits->shift;
	return true;
}

/**
 * floop_holes_settle() - what writes may have moved isn't in the map any more
 * @image: the image
 * @sector: its first sector, from floop_holes_moved()
 * @nr: the number of sectors
 *
 * Context: The fill's work. Doesn't sleep.
 */
void floop_holes_settle(struct floop_image *image, sector_t sector, sector_t nr)
{
	struct floop_holes *holes = &image->holes;
	struct floop_hole_bits *bits;
	unsigned long first, end;

	/* Pairs with smp_rmb() in floop_holes_unmoved(). */
	smp_wmb();
	spin_lock(&holes->lock);
	bits = get_bits(holes);
	granules(bits, sector, nr, &first, &end);
	WRITE_ONCE(holes->nr_moved, holes->nr_moved -
		   change_bits(bits->moved, first, end, false));
	spin_unlock(&holes->lock);
}

/**
 * floop_holes_look_at_parts() - before the file system is asked for blocks of a
 * file that shares some
 * @image: the image
 * @quiet: set to where nobody is writing
 *
 * A write through the file system may move a block of such a file when it ends,
 * or when its data is written from the page cache.
 *
 * Context: Any.
 */
void floop_holes_look_at_parts(struct floop_image *image,
			       struct floop_quiet *quiet)
{
	struct floop_holes *holes = &image->holes;
	unsigned int part;

	quiet->parts = 0;
	for (part = 0; part < FLOOP_PARTS; part++) {
		/* First: see floop_holes_look(). */
		unsigned long ended =
			atomic_long_read_acquire(&holes->part_ended[part]);

		quiet->begun[part] = READ_ONCE(holes->part_begun[part]);
		if (quiet->begun[part] == ended)
			quiet->parts |= BIT_ULL(part);
	}
	/* Then, as there */
	smp_rmb();
	if (READ_ONCE(image->file->f_mapping->nrpages))
		quiet->parts = 0;
}

static bool are_quiet(struct floop_holes *holes,
		      const struct floop_quiet *quiet, sector_t sector,
		      sector_t nr)
{
	sector_t last = floop_last_part(sector, nr), part;

	for (part = floop_first_part(sector); part <= last; part++) {
		unsigned int i = part % FLOOP_PARTS;

		if (!(quiet->parts & BIT_ULL(i)) ||
		    holes->part_begun[i] != quiet->begun[i])
			return false;
	}
	return true;
}

/**
 * floop_holes_are_quiet() - has nobody written to a range since?
 * @image: the image
 * @quiet: since when: from floop_holes_look_at_parts()
 * @sector: the first sector of its file
 * @nr: the number of sectors, not 0
 *
 * Context: Process context. Doesn't sleep.
 * Return: true if nobody has. A write may begin at once.
 */
bool floop_holes_are_quiet(struct floop_image *image,
			   const struct floop_quiet *quiet, sector_t sector,
			   sector_t nr)
{
	struct floop_holes *holes = &image->holes;
	bool are;

	spin_lock(&holes->lock);
	are = are_quiet(holes, quiet, sector, nr);
	spin_unlock(&holes->lock);
	return are;
}

/**
 * floop_holes_read() - answer a read of a known hole
 * @image: the image, in an epoch
 * @bio: a read of a known hole; ended if this returns true
 *
 * Context: Process context, in ->submit_bio. Doesn't sleep.
 * Return: false if it is too long.
 */
bool floop_holes_read(struct floop_image *image, struct bio *bio)
{
	unsigned long start = 0;
	bool counted;

	if (bio->bi_iter.bi_size > MAX_READ)
		return false;
	counted = blk_queue_io_stat(bdev_get_queue(bio->bi_bdev));
	if (counted)
		start = bio_start_io_acct(bio);
	trace_floop_io_hole(image, bio);
	this_cpu_inc(image->counts->holes);
	zero_fill_bio(bio);
	if (counted)
		bio_end_io_acct(bio, start);
	bio_endio(bio);
	return true;
}
