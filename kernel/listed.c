// SPDX-License-Identifier: GPL-2.0
/*
 * Look up many extents in one question: a list, as fiemap(2) gives it. The
 * helper's memory is where it goes (helper.c). Only a list says which blocks of
 * a file are shared, and which aren't; else it is worth it for many extents.
 */
#include <linux/fiemap.h>
#include <linux/fs.h>

#include "fill.h"
#include "helper.h"
#include "hole.h"
#include "image.h"
#include "kinds.h"
#include "listed.h"
#include "look.h"
#include "lookup.h"
#include "unshare.h"

/* Questions that take as many instructions as to start the helper. */
#define MANY_LOOKS		512

/**
 * floop_listed_is_due() - is it time for a list?
 * @batch: the batch
 *
 * Context: The fill's work.
 * Return: false if there is no helper to make one, or no need of one.
 */
bool floop_listed_is_due(struct floop_batch *batch)
{
	struct floop_fill *fill = &batch->image->fill;

	if (!floop_helper_is_set())
		return false;
	if (READ_ONCE(fill->shared))
		return batch->probed;
	/* If bmap() answers, the file shares nothing, and isn't realtime. */
	return batch->answered && !fill->unlisted &&
	       (floop_helper_is_there() || batch->look.looks >= MANY_LOOKS);
}

/*
 * A list has no data from @sector to @end. If nobody was writing and no page
 * was cached, there is none.
 */
static void note_empty(struct floop_batch *batch, struct floop_todo *todo,
		       sector_t sector, sector_t end, enum floop_kind kind,
		       bool quiet, unsigned long begun)
{
	if (sector >= end)
		return;
	floop_lookup_add_hole(batch, sector, end, quiet, begun);
	floop_kinds_note(batch, todo, sector, end, kind);
}

/**
 * floop_listed_look() - look up a range in a list
 * @batch: gets it
 * @todo: the chunks of the file
 * @sector: where it begins, in the file; set to where to go on
 * @end: where it ends
 *
 * Context: The fill's work, in an epoch. May sleep.
 * Return: false if the batch has no more room, or an error.
 */
bool floop_listed_look(struct floop_batch *batch, struct floop_todo *todo,
		       sector_t *sector, sector_t end)
{
	struct floop_fill *fill = &batch->image->fill;
	struct inode *inode = file_inode(batch->image->file);
	u64 mask = i_blocksize(inode) - 1;
	sector_t begin_at = *sector;
	unsigned long begun;
	bool quiet;
	int i, nr;

	fill->asked = true;
	batch->careful |= READ_ONCE(fill->shared);
	quiet = floop_holes_look(batch->image, &begun);
	nr = floop_look_list(&batch->look, *sector, end, batch->listed,
			     FLOOP_LISTED);
	if (batch->look.err)
		return false;
	if (nr < 0) {
		fill->unlisted = true;
		/* One by one, unless only a list says where they are. */
		if (READ_ONCE(fill->shared))
			*sector = min(end, floop_todo_next(todo, *sector));
		return true;
	}
	fill->relist = FLOOP_RELIST_FIRST;
	for (i = 0; i < nr; i++) {
		struct fiemap_extent *extent = &batch->listed[i];
		u64 pos = extent->fe_logical, size = extent->fe_length;
		u64 begin = max_t(u64, pos, (u64)*sector << SECTOR_SHIFT);
		u64 stop = min_t(u64, pos + size, (u64)end << SECTOR_SHIFT);
		u64 disk = extent->fe_physical + (begin - pos);
		u32 flags = extent->fe_flags & ~(FIEMAP_EXTENT_LAST |
						 FIEMAP_EXTENT_MERGED |
						 FIEMAP_EXTENT_SHARED);
		bool shared = extent->fe_flags & FIEMAP_EXTENT_SHARED;

		if (stop <= begin)
			continue;
		note_empty(batch, todo, *sector, begin >> SECTOR_SHIFT,
			   FLOOP_KIND_HOLE, quiet, begun);
		*sector = begin >> SECTOR_SHIFT;
		/* It can't be: bmap() has answered. */
		if (shared && !READ_ONCE(fill->shared)) {
			fill->unlisted = true;
			return true;
		}
		/* All of it is looked up now. */
		if (shared && !fill->still_shares &&
		    floop_unshare_is_due(batch->image))
			floop_unshare_put_off(fill);
		fill->still_shares |= shared;
		if (flags == FIEMAP_EXTENT_UNWRITTEN)
			note_empty(batch, todo, *sector, stop >> SECTOR_SHIFT,
				   FLOOP_KIND_UNWRITTEN, quiet, begun);
		if (!flags && extent->fe_physical &&
		    !((pos | size | extent->fe_physical) & mask) &&
		    !floop_lookup_add(batch, begin >> SECTOR_SHIFT,
			       (stop - begin) >> SECTOR_SHIFT,
			       disk >> SECTOR_SHIFT,
			       shared))
			return false;
		*sector = stop >> SECTOR_SHIFT;
	}
	/* Whatever the helper's memory says: get on. */
	if (nr == FLOOP_LISTED && *sector == begin_at) {
		fill->unlisted = true;
		*sector = min(end, floop_todo_next(todo, *sector));
	}
	if (nr < FLOOP_LISTED) {
		note_empty(batch, todo, *sector, end, FLOOP_KIND_HOLE, quiet,
			   begun);
		*sector = end;
	}
	return true;
}
