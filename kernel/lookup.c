// SPDX-License-Identifier: GPL-2.0
/*
 * Look up where the image's blocks are. The file is looked up in chunks,
 * beginning near the last miss; neighbouring chunks as one range. A chunk is
 * looked up again after a write to it through the file system. What the file
 * system is asked is in look.c. Whoever looks may be left behind while it asks
 * (ask.h), and then touches nothing but its batch.
 */
#include <linux/bitmap.h>
#include <linux/fs.h>

#include "fill.h"
#include "fs.h"
#include "guard.h"
#include "hole.h"
#include "image.h"
#include "kinds.h"
#include "listed.h"
#include "look.h"
#include "lookup.h"
#include "rules.h"
#include "unshare.h"

/* 1 MiB, in sectors: where less is new, bmap() takes fewer instructions. */
#define LIST_SECTORS		BIT(11)
/* Questions to the file system before the batch goes into the map. */
#define MAX_LOOKS		BIT(15)

/**
 * floop_lookup_sectors() - how much of an image may be mapped
 * @image: the image
 *
 * Whole blocks only: the file system zeroes the rest of a partial last block
 * through the page cache, which mapped I/O bypasses.
 *
 * Context: Any.
 * Return: sectors.
 */
sector_t floop_lookup_sectors(struct floop_image *image)
{
	struct inode *inode = file_inode(image->file);

	return round_down(i_size_read(inode), i_blocksize(inode)) >>
	       SECTOR_SHIFT;
}

/**
 * floop_lookup_add() - a range is found
 * @batch: gets it
 * @sector: the first sector of the range, in the file
 * @nr: the number of sectors
 * @disk: the sector of the disk where it is
 * @shared: other files may share it
 *
 * Context: The fill's work.
 * Return: false if there is no room in the batch.
 */
bool floop_lookup_add(struct floop_batch *batch, sector_t sector, sector_t nr,
		      sector_t disk, bool shared)
{
	if (batch->nr) {
		struct floop_found *last = &batch->found[batch->nr - 1];

		if (last->sector + last->nr == sector &&
		    last->disk + last->nr == disk && last->shared == shared) {
			last->nr += nr;
			return true;
		}
	}
	if (batch->nr == FLOOP_BATCH)
		return false;
	batch->found[batch->nr++] = (struct floop_found){
		sector, nr, disk, shared,
	};
	return true;
}

/* With the map's lock held, in the epoch: look again from @sector to @end. */
static void note_unsure(struct floop_fill *fill, sector_t sector, sector_t end)
{
	fill->unsure = min(fill->unsure, sector);
	fill->unsure_end = max(fill->unsure_end, end);
}

/**
 * floop_lookup_add_hole() - reads of a range find no data
 * @batch: the batch
 * @sector: the first sector of the range, in the file
 * @end: the first sector behind it
 * @quiet: what floop_holes_look() has returned before the file system was asked
 * @begun: what it has set; if a write has begun since, it isn't known
 *
 * Context: The fill's work. Takes the map's lock.
 */
void floop_lookup_add_hole(struct floop_batch *batch, sector_t sector,
			   sector_t end, bool quiet, unsigned long begun)
{
	struct floop_image *image = batch->image;
	struct mutex *lock = &image->guard.map.lock;
	struct floop_fill *fill = &image->fill;

	end = min(end, floop_lookup_sectors(image));
	if (sector >= end)
		return;
	floop_window(FLOOP_WINDOW_FILL);
	mutex_lock(lock);
	if (floop_guard_in_epoch(&image->guard, batch->epoch) &&
	    !(quiet && floop_holes_add(image, sector, end, begun)))
		note_unsure(fill, sector, end);
	mutex_unlock(lock);
}

/* Discard the kept ends of holes and data. */
static void forget_seeks(struct floop_fill *fill)
{
	fill->gap_end = 0;
	fill->data_end = 0;
}

/**
 * floop_lookup_forget() - look for all holes and data again
 * @fill: the fill
 *
 * Context: The fill's work, or it doesn't run.
 */
void floop_lookup_forget(struct floop_fill *fill)
{
	fill->unsure = FLOOP_NOWHERE;
	fill->unsure_end = 0;
	forget_seeks(fill);
}

/* Discard what is older than a write or a change. */
static void forget_old_seeks(struct floop_fill *fill)
{
	unsigned long wrote = READ_ONCE(fill->wrote);

	if (fill->seen != wrote) {
		forget_seeks(fill);
		fill->seen = wrote;
	}
	/* The file system finds the writes that are counted so far. */
	smp_rmb();
}

/*
 * Find where data begins, at @sector or after it; FLOOP_NOWHERE if there is
 * none. Keep the answer: the file system walks over all the holes and unwritten
 * extents before it, and would do so again for the next chunk. Returns false if
 * the look has an error.
 */
static bool next_data(struct floop_batch *batch, sector_t sector,
		      sector_t *data)
{
	struct floop_image *image = batch->image;
	struct floop_fill *fill = &image->fill;
	unsigned long begun;
	bool quiet;

	forget_old_seeks(fill);
	*data = sector;
	if (sector >= fill->data && sector < fill->data_end)
		return true;
	if (sector < fill->gap || sector >= fill->gap_end) {
		quiet = floop_holes_look(image, &begun);
		if (!floop_look_seek(&batch->look, sector, SEEK_DATA, data))
			return false;
		fill->gap = sector;
		fill->gap_end = *data;
		floop_lookup_add_hole(batch, sector, fill->gap_end, quiet,
				      begun);
	}
	*data = fill->gap_end;
	return true;
}

/*
 * Find where a hole begins after @sector, which is data. Kept likewise. A page
 * in the page cache makes unwritten blocks data, for as long as it is there.
 */
static bool next_hole(struct floop_batch *batch, sector_t sector,
		      sector_t *hole)
{
	struct address_space *mapping = batch->image->file->f_mapping;
	struct floop_fill *fill = &batch->image->fill;
	bool pages;

	forget_old_seeks(fill);
	if (sector < fill->data || sector >= fill->data_end) {
		pages = READ_ONCE(mapping->nrpages);
		if (!floop_look_seek(&batch->look, sector, SEEK_HOLE, hole))
			return false;
		fill->data_unsure = pages || READ_ONCE(mapping->nrpages);
		fill->data = sector;
		fill->data_end = *hole;
	}
	*hole = fill->data_end;
	return true;
}

static unsigned int max_looks(void)
{
	return floop_window_is_open(FLOOP_WINDOW_LOOKS) ? 1000 : MAX_LOOKS;
}

/* Has the batch no more room at @sector, or has the epoch ended? */
static bool is_over(struct floop_batch *batch, sector_t sector)
{
	cond_resched();
	return (batch->look.looks >= max_looks() && sector >= batch->least) ||
	       !floop_guard_in_epoch(&batch->image->guard, batch->epoch);
}

/*
 * Find out what is where there is no data, from @sector to @end. Returns false
 * as look_up_gap().
 */
static bool look_at_empty(struct floop_batch *batch, struct floop_todo *todo,
			  sector_t *sector, sector_t end)
{
	struct inode *inode = file_inode(batch->image->file);
	unsigned int shift = inode->i_blkbits - SECTOR_SHIFT;

	while (*sector < end) {
		sector_t block = *sector >> shift, nr;
		enum floop_kind kind = FLOOP_KIND_BOTH;
		sector_t part_end = min(end, floop_todo_next(todo, *sector));

		if (is_over(batch, *sector))
			return false;
		if (floop_kinds_ask(batch, todo, *sector)) {
			nr = floop_look_empty(&batch->look, block,
					      max(1, (end >> shift) - block),
					      &kind);
			part_end = min((block + nr) << shift, end);
		}
		if (batch->look.err)
			return false;
		floop_kinds_note(batch, todo, *sector, part_end, kind);
		batch->parts++;
		*sector = part_end;
	}
	return true;
}

/*
 * bmap() says 0 for @sector. Note if that is because xfs tells of no block of a
 * file that shares some, or has shared some: first the file has data there, not
 * in the page cache only, which goes on within an epoch; then still no block. A
 * realtime file has none to tell of, either. While there are pages it isn't
 * known: look again later.
 */
static void look_for_shared(struct floop_batch *batch, sector_t sector)
{
	struct floop_image *image = batch->image;
	struct inode *inode = file_inode(image->file);
	unsigned int shift = inode->i_blkbits - SECTOR_SHIFT;
	struct mutex *lock = &image->guard.map.lock;
	bool no_pages = !READ_ONCE(inode->i_mapping->nrpages);
	sector_t there;

	if (READ_ONCE(image->fill.shared) || !floop_fs_is_xfs(inode))
		return;
	if (no_pages &&
	    (!floop_look_seek(&batch->look, sector, SEEK_DATA, &there) ||
	     there != sector))
		return;
	no_pages &= !READ_ONCE(inode->i_mapping->nrpages);
	if (no_pages &&
	    (floop_look_block(&batch->look, sector >> shift, &there) ||
	     floop_look_realtime(&batch->look)))
		return;
	mutex_lock(lock);
	if (!floop_guard_in_epoch(&image->guard, batch->epoch))
		goto unlock;
	if (no_pages)
		WRITE_ONCE(image->fill.shared, true);
	else
		note_unsure(&image->fill, sector, sector + BIT(shift));
unlock:
	mutex_unlock(lock);
}

/* xfs tells of a block: no file shares any of this one. */
static void note_unshared(struct floop_batch *batch, struct floop_todo *todo)
{
	struct floop_image *image = batch->image;
	struct floop_fill *fill = &image->fill;

	mutex_lock(&image->guard.map.lock);
	if (floop_guard_in_epoch(&image->guard, batch->epoch)) {
		WRITE_ONCE(fill->shared, false);
		floop_unshare_reset(fill);
		bitmap_fill(todo->bits, todo->chunks);
	}
	mutex_unlock(&image->guard.map.lock);
}

/*
 * Look up the extent at @sector, up to @end. If the file system reports where
 * it is, it need not be asked whether that is data: SEEK_HOLE walks over all
 * extents of the data. Returns false as look_up_gap().
 */
static bool look_up_extent(struct floop_batch *batch, struct floop_todo *todo,
			   sector_t *sector, sector_t end)
{
	struct floop_image *image = batch->image;
	unsigned int shift = file_inode(image->file)->i_blkbits - SECTOR_SHIFT;
	sector_t block = *sector >> shift, disk, nr;

	nr = floop_look_extent(&batch->look, block,
			       max(1, (end >> shift) - block), &disk);
	if (batch->look.err)
		return false;
	if (!nr)
		return true;
	batch->answered = true;
	if (READ_ONCE(image->fill.shared))
		note_unshared(batch, todo);
	else
		floop_unshare_reset(&image->fill);
	if (!floop_lookup_add(batch, block << shift, nr << shift, disk << shift,
			      false))
		return false;
	*sector = (block + nr) << shift;
	return true;
}

/*
 * The file system reports no location at @sector. If it isn't known to be data,
 * up to @hole, find out; pass over it if there is none. Returns false as
 * look_up_gap().
 */
static bool look_for_data(struct floop_batch *batch, struct floop_todo *todo,
			  sector_t *sector, sector_t end, sector_t *hole)
{
	sector_t data;

	if (*sector < *hole)
		return true;
	if (!next_data(batch, *sector, &data))
		return false;
	if (data > *sector)
		return look_at_empty(batch, todo, sector, min(data, end));
	if (!next_hole(batch, *sector, hole))
		return false;
	*hole = min(*hole, end);
	return true;
}

/*
 * The file system reports no location for the data from @sector to @hole. It
 * does so for all blocks of a reflinked or a realtime file on xfs. Or the data
 * is being written, and the chunk will be looked up again. Or somebody has read
 * a block that was never written: its page makes it data. The next block may be
 * mapped; if the pages have gone, the data may end here. Returns false as
 * look_up_gap().
 */
static bool pass_data(struct floop_batch *batch, struct floop_todo *todo,
		      sector_t *sector, sector_t *hole)
{
	struct floop_image *image = batch->image;
	unsigned int shift = file_inode(image->file)->i_blkbits - SECTOR_SHIFT;
	bool pages;

	if (!batch->probed)
		look_for_shared(batch, *sector);
	if (batch->look.err)
		return false;
	batch->probed = READ_ONCE(image->fill.shared);
	if (batch->probed && floop_listed_is_due(batch))
		return floop_listed_look(batch, todo, sector, *hole);
	pages = READ_ONCE(image->file->f_mapping->nrpages);
	if (batch->probed || !(pages || image->fill.data_unsure)) {
		*sector = min(*hole, floop_todo_next(todo, *sector));
		return true;
	}
	*sector = ((*sector >> shift) + 1) << shift;
	if (!pages) {
		forget_seeks(&image->fill);
		*hole = *sector;
	}
	return true;
}

/*
 * Look up from @sector to @end, a gap of the map. Returns false, with @sector
 * where to go on, if the batch has no more room or an error, or the epoch has
 * ended.
 */
static bool look_up_gap(struct floop_batch *batch, struct floop_todo *todo,
			sector_t *sector, sector_t end)
{
	sector_t here, hole = 0;

	while (*sector < end) {
		if (is_over(batch, *sector))
			return false;
		*sector = floop_kinds_pass(batch, todo, *sector, end);
		if (*sector >= end)
			break;
		if ((end - *sector >= LIST_SECTORS || batch->goes_on) &&
		    floop_listed_is_due(batch)) {
			if (!floop_listed_look(batch, todo, sector, end))
				return false;
			continue;
		}
		here = *sector;
		if (!batch->probed &&
		    !look_up_extent(batch, todo, sector, end))
			return false;
		if (*sector > here)
			continue;
		if (!look_for_data(batch, todo, sector, end, &hole))
			return false;
		if (*sector == here && hole > here &&
		    !pass_data(batch, todo, sector, &hole))
			return false;
	}
	return true;
}

/**
 * floop_lookup_mark() - have a range looked up
 * @todo: the chunks of the file
 * @sector: the first sector of the file
 * @nr: the number of sectors, not 0
 *
 * Context: Any, interrupts included.
 */
void floop_lookup_mark(struct floop_todo *todo, sector_t sector, sector_t nr)
{
	unsigned long chunk = sector >> todo->shift;
	unsigned long last = (sector + nr - 1) >> todo->shift;

	for (; chunk <= last && chunk < todo->chunks; chunk++)
		if (!test_bit(chunk, todo->bits))
			set_bit(chunk, todo->bits);
}

/*
 * Look up from @sector to @limit. Returns false if something is left for the
 * next batch. It goes on where this one has no more room, or it might never get
 * on; what is behind that chunk is marked again. After an error it begins
 * behind it.
 */
static bool look_up(struct floop_batch *batch, struct floop_todo *todo,
		    sector_t sector, sector_t limit)
{
	struct floop_image *image = batch->image;
	struct floop_guard *guard = &image->guard;
	sector_t begin, end, next;

	while (floop_map_gap(&guard->map, &sector, limit, &end)) {
		begin = sector;
		if (look_up_gap(batch, todo, &sector, end)) {
			if (floop_guard_in_epoch(guard, batch->epoch))
				continue;
			/* It ended on the way: not all was noted. */
			sector = begin;
		}
		if (batch->look.left)
			return false;
		floop_kinds_end(batch, todo, sector);
		next = floop_todo_next(todo, sector);
		mutex_lock(&guard->map.lock);
		if (batch->look.err) {
			WRITE_ONCE(image->fill.near, next);
		} else if (floop_guard_in_epoch(guard, batch->epoch)) {
			/* Its bit is clear: a write since has it set again. */
			image->fill.rest = sector;
			sector = next;
		}
		if (sector < limit)
			floop_lookup_mark(todo, sector, limit - sector);
		mutex_unlock(&guard->map.lock);
		return false;
	}
	floop_kinds_end(batch, todo, FLOOP_NOWHERE);
	return true;
}

/* Look up the chunks from @chunk to @last, which are marked: as look_up(). */
static bool look_up_chunks(struct floop_batch *batch, struct floop_todo *todo,
			   unsigned long chunk, unsigned long last)
{
	unsigned int shift = todo->shift;
	sector_t sector = (sector_t)chunk << shift;
	sector_t limit = min((sector_t)last << shift,
			     floop_lookup_sectors(batch->image));

	/*
	 * After an error the next batch goes through all gaps of its first
	 * chunk again. Ending before the second one, batches might never get
	 * there.
	 */
	batch->least = (sector_t)(chunk + 1) << shift;
	for (; chunk < last; chunk++)
		clear_bit(chunk, todo->bits);
	/* Before the lookup: a later write marks the chunk again. */
	smp_mb__after_atomic();
	return look_up(batch, todo, sector, limit);
}

/* Look up what is marked from @chunk to @end. Returns as look_up(). */
static bool look_up_marked(struct floop_batch *batch, struct floop_todo *todo,
			   unsigned long chunk, unsigned long end)
{
	unsigned long last;

	for (;; chunk = last) {
		chunk = find_next_bit(todo->bits, end, chunk);
		if (chunk >= end)
			return true;
		if (batch->look.looks >= max_looks())
			return false;
		last = find_next_zero_bit(todo->bits, end, chunk);
		if (!look_up_chunks(batch, todo, chunk, last))
			return false;
		cond_resched();
	}
}

/* Look up the rest of the chunk where the last batch had no more room. */
static bool look_up_rest(struct floop_batch *batch, struct floop_todo *todo)
{
	sector_t sector = batch->image->fill.rest;
	sector_t limit = min(floop_todo_next(todo, sector),
			     floop_lookup_sectors(batch->image));
	bool done;

	batch->image->fill.rest = FLOOP_NOWHERE;
	batch->goes_on = true;
	batch->least = floop_todo_next(todo, sector);
	floop_kinds_skip(batch, todo, sector);
	done = look_up(batch, todo, sector, limit);
	batch->goes_on = false;
	return done;
}

/**
 * floop_lookup() - look up what is marked
 * @batch: gets it; if it has no more room, the rest stays marked
 * @todo: the chunks of the file
 *
 * Context: The fill's work, in an epoch. May sleep.
 */
void floop_lookup(struct floop_batch *batch, struct floop_todo *todo)
{
	struct floop_fill *fill = &batch->image->fill;
	unsigned long near = min_t(sector_t, todo->chunks,
				   READ_ONCE(fill->near) >> todo->shift);

	/*
	 * Beginning at the last miss, and each chunk once: writes may mark some
	 * as fast as they are looked up.
	 */
	batch->whole = (fill->rest == FLOOP_NOWHERE ||
			look_up_rest(batch, todo)) &&
		       look_up_marked(batch, todo, near, todo->chunks) &&
		       look_up_marked(batch, todo, 0, near);
}
