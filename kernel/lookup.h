/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Look up where the blocks of an image are, in batches.
 */
#ifndef FLOOP_LOOKUP_H
#define FLOOP_LOOKUP_H

#include <linux/fiemap.h>
#include <linux/types.h>

#include "fill.h"
#include "hole.h"
#include "look.h"
#include "map.h"

struct floop_image;

#define FLOOP_BATCH		1024
/* How many extents the helper lists at a time. */
#define FLOOP_LISTED		256

/**
 * struct floop_batch - what is looked up in an epoch, before an fsync
 * @look: the questions
 * @image: the image
 * @epoch: the epoch
 * @nr: how much is @found
 * @least: the sector before which the batch doesn't end, in the file
 * @quiet: where nobody was writing before
 * @probed: bmap() is known to answer for no block
 * @answered: it has answered for some block
 * @busy: somebody has written there meanwhile
 * @whole: all that was marked is looked up
 * @careful: the file may share blocks
 * @goes_on: looks up where the batch before had no more room: there are many
 *	extents
 * @chunk: the chunk that is looked up
 * @kinds: what that is where it has no data, as far as it is looked up; 0: not
 *	known yet
 * @parts: how often the file system was asked for that
 * @found: the blocks
 * @listed: memory for a list of extents
 */
struct floop_batch {
	struct floop_look look;
	struct floop_image *image;
	unsigned long epoch;
	unsigned int nr;
	sector_t least;
	struct floop_quiet quiet;
	bool probed;
	bool answered;
	bool busy;
	bool whole;
	bool careful;
	bool goes_on;
	unsigned long chunk;
	unsigned int kinds;
	unsigned int parts;
	struct floop_found found[FLOOP_BATCH];
	struct fiemap_extent listed[FLOOP_LISTED];
};

sector_t floop_lookup_sectors(struct floop_image *image);
bool floop_lookup_add(struct floop_batch *batch, sector_t sector, sector_t nr,
		      sector_t disk, bool shared);
void floop_lookup_add_hole(struct floop_batch *batch, sector_t sector,
			   sector_t end, bool quiet, unsigned long begun);
void floop_lookup_forget(struct floop_fill *fill);
void floop_lookup_mark(struct floop_todo *todo, sector_t sector, sector_t nr);
void floop_lookup(struct floop_batch *batch, struct floop_todo *todo);

#endif /* FLOOP_LOOKUP_H */
