// SPDX-License-Identifier: GPL-2.0
/*
 * The map of a file that shares blocks (shared.h). xfs copies a block that is
 * shared when it is written, and a block that nobody shares any more if the
 * copy's blocks are there already (what is left in its CoW fork). The image has
 * another block then, and the old one may become somebody else's. Four things
 * keep mapped I/O to such a file right:
 *  - Who makes or removes a share with a descriptor of ours breaks the lease.
 *    Others can only give up theirs. So within an epoch only our own writes
 *    through the file system move blocks.
 *  - Such a write notes its range as moved before it begins
 *    (floop_holes_write_begin()), and doesn't call the file system before all
 *    mapped I/O has ended there that there was. Mapped I/O says first where it
 *    is (inside.h), and looks for the note then. The fill takes what is noted
 *    out of the map.
 *  - Blocks are added as holes are: only if nobody was writing there when the
 *    file system was asked, and nobody has begun since.
 *  - Others who come to write to the file wait in open(2) while such I/O is in
 *    flight (floop_hold_is_partial()): their writes don't wait for direct I/O.
 *    Mapped I/O says first where it is, and looks for a break then.
 *
 * Only the root cgroup's I/O is mapped here, and not that of the idle class:
 * while it is held up, writes of others would wait for it, and who opens the
 * image to write.
 */
#include <linux/blkdev.h>

#include "image.h"
#include "io.h"
#include "rules.h"

/* Of an entry's place on the disk: other files have these blocks, too. */
#define SHARED		BIT_ULL(60)

/**
 * floop_shared_init_image() - prepare an empty map of shared blocks
 * @image: the image
 *
 * Context: Process context. May sleep.
 * Return: 0 or -ENOMEM.
 */
int floop_shared_init_image(struct floop_image *image)
{
	floop_inside_init(&image->shared.inside);
	return floop_map_init(&image->shared.map, NULL);
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
 * floop_shared_clear() - forget all blocks
 * @image: the image, outside of an epoch
 *
 * Context: Process context, with the lock of the image's map held.
 */
void floop_shared_clear(struct floop_image *image)
{
	floop_map_clear(&image->shared.map);
	WRITE_ONCE(image->shared.sectors, 0);
}

/* The extent at @sector, up to @end. Returns false if there is none. */
static bool find(struct floop_shared *shared, sector_t sector, sector_t end,
		 sector_t *disk, sector_t *nr)
{
	sector_t extent_end;
	bool there = floop_map_recall(&shared->map, sector, disk,
				      &extent_end);

	*nr = min(end, extent_end) - sector;
	return there;
}

/**
 * floop_shared_remove() - take a range out
 * @image: the image
 * @sector: the first sector of its file
 * @nr: the number of sectors
 *
 * One extent at a time: the tree frees no part of itself while others read it.
 *
 * Context: Process context, with the lock of the image's map held. There may be
 * readers. Doesn't wait for memory.
 * Return: 0 or -ENOMEM.
 */
int floop_shared_remove(struct floop_image *image, sector_t sector, sector_t nr)
{
	struct floop_shared *shared = &image->shared;
	sector_t end = sector + nr, disk, taken;
	int err;

	for (; sector < end; sector += nr) {
		if (!find(shared, sector, end, &disk, &nr))
			continue;
		taken = nr;
		err = floop_map_take_out(&shared->map, sector, &taken);
		if (err)
			return err;
		if (disk & SHARED)
			WRITE_ONCE(shared->sectors, shared->sectors - taken);
	}
	return 0;
}

/**
 * floop_shared_add() - map a range of a file that shares blocks
 * @image: the image
 * @sector: the first sector of its file
 * @nr: the number of sectors
 * @disk: the first sector on the disk
 * @others: other files have these blocks, too
 *
 * Context: Process context, with the lock of the image's map held. There may be
 * readers. Doesn't wait for memory.
 * Return: 0, -ENOSPC or -ENOMEM.
 */
int floop_shared_add(struct floop_image *image, sector_t sector, sector_t nr,
		     sector_t disk, bool others)
{
	struct floop_shared *shared = &image->shared;
	sector_t there, same;
	int err;

	if (others)
		disk |= SHARED;
	if (find(shared, sector, sector + nr, &there, &same) &&
	    there == disk && same == nr)
		return 0;
	/* Others may have given up their share. */
	err = floop_shared_remove(image, sector, nr);
	if (!err)
		err = floop_map_add(&shared->map, sector, nr, disk);
	if (!err && others)
		WRITE_ONCE(shared->sectors, shared->sectors + nr);
	return err;
}

/* floop_holes_unmoved(), which is as a rule known at once */
static inline sector_t unmoved(struct floop_image *image, sector_t sector,
			       sector_t nr)
{
	if (unlikely(READ_ONCE(image->holes.nr_moved)))
		return floop_holes_unmoved(image, sector, nr);
	/* As there */
	smp_rmb();
	return nr;
}

/**
 * floop_shared_begin() - before mapped I/O to a file that shares blocks
 * @image: the image, in an epoch, for as long as the I/O takes
 * @io: the I/O, with its range in the file; set to its front that is in one
 *	piece
 * @write: it is a write
 * @disk: set to where that is on the disk
 *
 * Context: Process context. Doesn't sleep.
 * Return: true: call floop_shared_end() when it has ended; false if none of it
 * is mapped.
 */
bool floop_shared_begin(struct floop_image *image, struct floop_inside_io *io,
			bool write, sector_t *disk)
{
	struct floop_shared *shared = &image->shared;
	sector_t sector = io->range.sector, nr;

	io->range.end = min(io->range.end, floop_next_part(sector));
	/* A write that waits isn't held up by those who only look. */
	nr = unmoved(image, sector, io->range.end - sector);
	if (!nr)
		return false;
	io->range.end = sector + nr;
	/* First: a write, or an opener, sees it; or we see them. */
	floop_inside_enter(&shared->inside, io);
	if (READ_ONCE(image->guard.state) != FLOOP_GUARD_MAPPED)
		goto none;
	/* Then: what is settled now was taken out before. */
	nr = unmoved(image, sector, io->range.end - sector);
	if (nr && find(shared, sector, sector + nr, disk, &nr) &&
	    !(write && *disk & SHARED)) {
		*disk &= ~SHARED;
		if (unlikely(io->range.end != sector + nr))
			floop_inside_change(&shared->inside, io, sector,
					    sector + nr);
		return true;
	}
none:
	floop_inside_leave(&shared->inside, io);
	return false;
}

/**
 * floop_shared_widen() - such I/O has to drop pages before it has ended
 * @image: the image
 * @io: from floop_shared_begin()
 *
 * A page, or a folio, may have other blocks than those of the I/O. While writes
 * to these make it dirty again, it can't be dropped. So they wait from here on.
 *
 * Context: Any, interrupts included.
 */
void floop_shared_widen(struct floop_image *image, struct floop_inside_io *io)
{
	sector_t sector = io->range.sector;

	floop_inside_change(&image->shared.inside, io,
			    floop_first_part(sector) << floop_part_shift(),
			    floop_next_part(sector));
}

/**
 * floop_shared_in_flight() - is such I/O in flight?
 * @image: the image, its epoch broken
 *
 * Context: Any. None begins once this returns false.
 * Return: true if some may be.
 */
bool floop_shared_in_flight(struct floop_image *image)
{
	return !floop_inside_is_quiet(&image->shared.inside, 0, FLOOP_NOWHERE,
				      false);
}

/**
 * floop_shared_write_begin() - before the file system is called for a write
 * @io: a write
 * @wait: it may sleep
 *
 * Context: A worker of the image. Sleeps with @wait as long as the disk takes.
 * Return: false if it would sleep.
 */
bool floop_shared_write_begin(struct floop_io *io, bool wait)
{
	struct floop_image *image = io->image;
	/* A write of a part of a block moves all of it. */
	sector_t block = i_blocksize(file_inode(image->file)) >> SECTOR_SHIFT;
	sector_t sector = (image->offset >> SECTOR_SHIFT) +
			  io->bio->bi_iter.bi_sector;
	sector_t end = round_up(sector + bio_sectors(io->bio), block);

	/* As floop_holes_write_begin() */
	if (likely(!READ_ONCE(image->fill.shared)) ||
	    !floop_rule_holds(FLOOP_RULE_SHARED))
		return true;
	sector = round_down(sector, block);
	/* What comes sees the note of this write, and goes. */
	return floop_inside_is_quiet(&image->shared.inside, sector, end, wait);
}
