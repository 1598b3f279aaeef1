// SPDX-License-Identifier: GPL-2.0
/*
 * Enter blocks into the map that the fill has looked up (fill.c): after an
 * fsync, if it is still the same epoch, and of a file that shares blocks only
 * where nobody writes.
 */
#include <linux/fs.h>
#include <linux/minmax.h>

#include "commit.h"
#include "fill.h"
#include "guard.h"
#include "hole.h"
#include "image.h"
#include "lookup.h"
#include "rules.h"

/* The two maps have one bound. */
static int are_full(struct floop_image *image)
{
	size_t bytes = floop_map_bytes(&image->guard.map) +
		       floop_map_bytes(&image->shared.map);

	return floop_map_is_full(bytes) ? -ENOSPC : 0;
}

/* With the map's lock held. What is in the map is no known hole. */
static int map_range(struct floop_image *image, sector_t sector, sector_t nr,
		     sector_t disk)
{
	int err = 0;

	floop_holes_remove(image, sector, nr);
	/* Of a file that shares nothing any more: either place is true. */
	if (image->shared.map.extents)
		err = are_full(image) ?: floop_shared_remove(image, sector, nr);
	return err ?: floop_map_add(&image->guard.map, sector, nr, disk);
}

/*
 * As map_range(), in a file that shares blocks: only where nobody was writing
 * and has begun since. Whoever begins now notes it first (shared.c). Of a
 * read-only image nobody writes.
 */
static int map_quiet(struct floop_batch *batch, sector_t sector, sector_t nr,
		     sector_t disk, bool shared)
{
	struct floop_image *image = batch->image;

	if (!image->read_only &&
	    !floop_holes_are_quiet(image, &batch->quiet, sector, nr))
		return -EBUSY;
	floop_holes_remove(image, sector, nr);
	return are_full(image) ?:
	       floop_shared_add(image, sector, nr, disk, shared);
}

/*
 * Map many extents at once, if @found begins with as many. Returns how many. As
 * in map_range(), what is in the map is no known hole.
 */
static unsigned int map_many(struct floop_image *image,
			     const struct floop_found *found, unsigned int nr)
{
	struct floop_map *map = &image->guard.map;
	unsigned int i;

	nr = floop_map_fit_table(map, found, nr);
	for (i = 0; i < nr; i++)
		floop_holes_remove(image, found[i].sector, found[i].nr);
	return nr && !floop_map_add_table(map, found, nr) ? nr : 0;
}

/* With the map's lock held, in the epoch. */
static int map_found(struct floop_batch *batch, struct floop_todo *todo,
		     const struct floop_found *found)
{
	struct floop_image *image = batch->image;
	sector_t sector = found->sector, end = sector + found->nr, next;
	int err = 0;

	if (!batch->careful)
		return map_range(image, sector, found->nr, found->disk);
	/* By parts: somebody may always be writing to one of them. */
	for (; sector < end && !err; sector = next) {
		next = floop_next_part(sector);
		next = image->read_only ? end : min(end, next);
		err = map_quiet(batch, sector, next - sector,
				found->disk + (sector - found->sector),
				found->shared);
		if (err != -EBUSY)
			continue;
		batch->busy = true;
		floop_lookup_mark(todo, sector, next - sector);
		err = 0;
	}
	return err;
}

/*
 * Map what the batch has at @i, with the map's lock held, in the epoch. @i is
 * then what is next.
 */
static int map_next(struct floop_batch *batch, struct floop_todo *todo,
		    unsigned int *i)
{
	struct floop_image *image = batch->image;
	const struct floop_found *found = &batch->found[*i];
	unsigned int nr = 0;
	int err = 0;

	if (!batch->careful && !image->shared.map.extents)
		nr = map_many(image, found, batch->nr - *i);
	if (!nr) {
		err = map_found(batch, todo, found);
		nr = !err;
	}
	*i += nr;
	return err;
}

/**
 * floop_commit() - make a batch durable and, if it is still the same epoch, map
 * it
 * @batch: what was looked up
 * @todo: the chunks of the file; what can't be mapped now is marked again
 *
 * Context: The fill's work. Sleeps, for as long as an fsync takes.
 * Return: 0; -ESTALE if the epoch has ended; -ENOSPC if the map has reached its
 * bound; or another negative errno.
 */
int floop_commit(struct floop_batch *batch, struct floop_todo *todo)
{
	struct floop_image *image = batch->image;
	struct address_space *mapping = image->file->f_mapping;
	unsigned long look = floop_calls_look(image);
	struct floop_guard *guard = &image->guard;
	unsigned int i = 0;
	int err = 0;

	while (!err && !floop_calls_wait(image, look))
		if (!floop_guard_in_epoch(guard, batch->epoch))
			err = -ESTALE;
	if (!err && floop_rule_holds(FLOOP_RULE_DURABLE))
		err = floop_image_make_durable(image);
	/* Direct I/O that fell back to buffered I/O may have left pages. */
	if (!err && !image->read_only && READ_ONCE(mapping->nrpages)) {
		err = floop_cache_invalidate(image);
		/* That may have moved blocks of a file that shares some. */
		batch->quiet.parts = 0;
	}
	if (!err) {
		floop_window(FLOOP_WINDOW_FILL);
		mutex_lock(&guard->map.lock);
		if (!floop_guard_in_epoch(guard, batch->epoch))
			err = -ESTALE;
		/* What fails is marked again, too. */
		while (i < batch->nr && !err)
			err = map_next(batch, todo, &i);
		/* In the epoch: clearing the map makes room again. */
		if (err == -ENOSPC)
			WRITE_ONCE(image->fill.full, true);
		mutex_unlock(&guard->map.lock);
	}
	for (; i < batch->nr; i++)
		floop_lookup_mark(todo, batch->found[i].sector,
				  batch->found[i].nr);
	return err;
}

/**
 * floop_commit_now() - map blocks that aren't durable yet
 * @image: the image
 * @epoch: the epoch in which they were written
 * @block: the first one in the file
 * @nr: how many there are, contiguous on the disk
 * @disk: the first one on the disk
 *
 * The caller sees to their durability, as floop_fill_now() says.
 *
 * Context: Process context. May sleep, but doesn't wait for memory.
 * Return: false if that can't be done now.
 */
bool floop_commit_now(struct floop_image *image, unsigned long epoch,
		      sector_t block, sector_t nr, sector_t disk)
{
	unsigned int shift = file_inode(image->file)->i_blkbits - SECTOR_SHIFT;
	struct floop_guard *guard = &image->guard;
	int err = -ESTALE;

	if (!floop_calls_wait(image, floop_calls_look(image)))
		return false;
	mutex_lock(&guard->map.lock);
	/* Pages would be older than the disk: the fill drops them. */
	if (floop_guard_in_epoch(guard, epoch) &&
	    !READ_ONCE(image->file->f_mapping->nrpages)) {
		WRITE_ONCE(image->ahead.undurable, image->ahead.undurable + 1);
		/* Before the blocks can be found (remap.c). */
		smp_wmb();
		err = map_range(image, block << shift, nr << shift,
				disk << shift);
	}
	mutex_unlock(&guard->map.lock);
	return !err;
}
