// SPDX-License-Identifier: GPL-2.0
/*
 * Blocks that the image shares with other files (shared.h). As long as the
 * image has its share of a block, nobody frees it. Three things keep a read of
 * such a block right:
 *  - A block is in this map for an epoch: whoever makes or removes another
 *    share with a descriptor of ours breaks the lease. Others can only remove
 *    theirs.
 *  - A write through the file system takes its range out before it begins
 *    (floop_holes_write_begin()), and doesn't call the file system before all
 *    mapped reads of shared blocks have ended that there were: the file system
 *    gives the share up when the write ends, and then the block may become
 *    somebody else's.
 *  - Blocks are added as holes are: only if nobody was writing there when the
 *    file system was asked, and nobody has begun since.
 *
 * xfs may copy a block that nobody shares any more, too, if the copy's blocks
 * are there already (what is left in its CoW fork). So a write through the file
 * system to blocks that are mapped, for writes, too, takes them out first, as a
 * change of ours does. That is rare: such blocks are written by the disk.
 *
 * Nor may others who write to the file find mapped I/O in flight:
 * floop_hold_is_partial() has them wait in open(2).
 */
#include <linux/blkdev.h>

#include "image.h"
#include "io.h"
#include "rules.h"

/**
 * floop_shared_init_image() - prepare an empty map of shared blocks
 * @image: the image
 *
 * Context: Process context. May sleep.
 * Return: 0 or -ENOMEM.
 */
int floop_shared_init_image(struct floop_image *image)
{
	unsigned int part;

	for (part = 0; part < FLOOP_PARTS; part++)
		floop_sides_init(&image->shared.reads[part]);
	init_waitqueue_head(&image->shared.ended);
	return floop_map_init(&image->shared.map);
}

/**
 * floop_shared_exit_image() - undo floop_shared_init_image()
 * @image: the image; no I/O is in flight
 *
 * Context: Process context. May sleep.
 */
void floop_shared_exit_image(struct floop_image *image)
{
	floop_map_exit(&image->shared.map);
}

/**
 * floop_shared_clear() - forget all shared blocks
 * @image: the image, outside of an epoch
 *
 * Context: Process context, with the lock of the image's map held.
 */
void floop_shared_clear(struct floop_image *image)
{
	floop_map_clear(&image->shared.map);
}

/**
 * floop_shared_read_begin() - before a mapped read of shared blocks
 * @image: the image, in an epoch, for as long as the read takes
 * @sector: the first sector of its file
 * @nr: the number of sectors; set to how many of them are in one piece
 * @disk: set to where they are on the disk
 *
 * Context: Process context. Doesn't sleep.
 * Return: what floop_shared_read_end() is told, or -ENODATA.
 */
int floop_shared_read_begin(struct floop_image *image, sector_t sector,
			    sector_t *nr, sector_t *disk)
{
	unsigned int part = (sector >> FLOOP_PART_SHIFT) % FLOOP_PARTS;
	struct floop_shared *shared = &image->shared;
	sector_t end;
	bool there;
	int read;

	if (!READ_ONCE(shared->map.extents))
		return -ENODATA;
	/* Counted first: a write that comes now waits, or we see it. */
	read = part * 2 + floop_sides_begin(&shared->reads[part]);
	rcu_read_lock();
	there = floop_map_find(&shared->map, sector, disk, &end);
	rcu_read_unlock();
	if (there) {
		end = min(end, ((sector >> FLOOP_PART_SHIFT) + 1) <<
			       FLOOP_PART_SHIFT);
		*nr = min(*nr, end - sector);
		if (floop_holes_have_shared(image, sector, *nr))
			return read;
	}
	floop_shared_read_end(image, read);
	return -ENODATA;
}

/**
 * floop_shared_read_end() - after a mapped read of shared blocks
 * @image: the image
 * @read: from floop_shared_read_begin()
 *
 * Context: Any, interrupts included.
 */
void floop_shared_read_end(struct floop_image *image, int read)
{
	struct floop_shared *shared = &image->shared;

	floop_sides_end(&shared->reads[read / 2], read & 1);
	/* A waiter is seen here, or sees the end: see wait_event(). */
	smp_mb__after_atomic();
	/* After the barrier */
	if (unlikely(waitqueue_active(&shared->ended)))
		wake_up_all(&shared->ended);
}

/* Have the mapped reads of a part ended that there were? */
static bool reads_end(struct floop_shared *shared, unsigned int part, bool wait)
{
	struct floop_sides *reads = &shared->reads[part];
	unsigned long look = floop_sides_look(reads);

	if (floop_sides_have_ended(reads, look))
		return true;
	if (wait)
		wait_event(shared->ended, floop_sides_have_ended(reads, look));
	return wait;
}

/* Are blocks of a range mapped, for writes, too? */
static bool is_mapped(struct floop_image *image, sector_t sector, sector_t end)
{
	sector_t gap = sector, gap_end;

	return !floop_map_gap(&image->guard.map, &gap, end, &gap_end) ||
	       gap != sector || gap_end != end;
}

/*
 * Take a range out of the map. The write stays counted until it ends, so
 * nothing enters there meanwhile. Returns -EIO if the page cache has pages that
 * are older than the disk's data and can't be dropped: xfs would write a part
 * of a block there, and the rest of the page with it.
 */
static int unmap(struct floop_image *image, sector_t sector, sector_t nr,
		 sector_t block)
{
	bool ready = floop_guard_change_begin(image);

	floop_guard_unmap_end(image, sector, nr);
	return ready || !((sector | nr) & (block - 1)) ? 0 : -EIO;
}

/**
 * floop_shared_write_begin() - before the file system is called for a write
 * @io: a write
 * @wait: it may sleep
 *
 * Context: A worker of the image. Sleeps with @wait as long as the disk takes.
 * Return: 0, or -EAGAIN if it would sleep; -EIO if it can't be written.
 */
int floop_shared_write_begin(struct floop_io *io, bool wait)
{
	struct floop_image *image = io->image;
	sector_t sector = (image->offset >> SECTOR_SHIFT) +
			  io->bio->bi_iter.bi_sector;
	sector_t nr = bio_sectors(io->bio), part, last, block;

	/* Nothing of it is mapped before this is known. */
	if (likely(!READ_ONCE(image->fill.shared)) ||
	    !floop_rule_holds(FLOOP_RULE_SHARED))
		return 0;
	last = floop_last_part(sector, nr);
	for (part = floop_first_part(sector); part <= last; part++)
		if (!reads_end(&image->shared, part % FLOOP_PARTS, wait))
			return -EAGAIN;
	block = i_blocksize(file_inode(image->file)) >> SECTOR_SHIFT;
	if (!READ_ONCE(image->guard.map.extents) ||
	    !is_mapped(image, round_down(sector, block),
		       round_up(sector + nr, block)))
		return 0;
	return wait ? unmap(image, sector, nr, block) : -EAGAIN;
}
