/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What is known of ranges of the image: holes, whose reads are answered at once
 * until somebody writes there; and where a write may have moved blocks
 * (shared.h).
 */
#ifndef FLOOP_HOLE_H
#define FLOOP_HOLE_H

#include <linux/atomic.h>
#include <linux/blk_types.h>
#include <linux/pagemap.h>
#include <linux/rcupdate.h>
#include <linux/spinlock.h>
#include <linux/types.h>

struct bio;
struct floop_image;
struct floop_io;

/**
 * struct floop_hole_bits - what is known of the parts of a file
 * @rcu: readers hold rcu_read_lock()
 * @nr: the number of granules
 * @shift: log2 of the sectors of a granule
 * @moved: a bit for each granule: blocks may not be where the map of a file
 *	that shares some has them
 * @bits: a bit for each granule: it reads as zeroes; the bits of @moved follow
 */
struct floop_hole_bits {
	struct rcu_head rcu;
	unsigned long nr;
	unsigned int shift;
	unsigned long *moved;
	unsigned long bits[];
};

/* Each chunk of 4 MiB is in one part; the parts take turns. */
#define FLOOP_PARTS		64U

/*
 * log2 of the sectors of a part. A folio of the page cache is in one part, too:
 * with pages of 4 KiB it has 2 MiB at most, with larger ones it may have 128.
 */
static inline unsigned int floop_part_shift(void)
{
	unsigned int folio = PAGE_SHIFT + MAX_PAGECACHE_ORDER - SECTOR_SHIFT;

	return max(13U, folio);
}

static inline sector_t floop_first_part(sector_t sector)
{
	return sector >> floop_part_shift();
}

/* The first sector of the part behind that of @sector */
static inline sector_t floop_next_part(sector_t sector)
{
	return (floop_first_part(sector) + 1) << floop_part_shift();
}

/* Of a range that isn't empty. Modulo FLOOP_PARTS, no part comes twice. */
static inline sector_t floop_last_part(sector_t sector, sector_t nr)
{
	return min(floop_first_part(sector + nr - 1),
		   floop_first_part(sector) + FLOOP_PARTS - 1);
}

/**
 * struct floop_quiet - where nobody was writing at some moment
 * @parts: a bit for each part: no write was in flight
 * @begun: the number of writes that had begun, of each part
 */
struct floop_quiet {
	u64 parts;
	unsigned long begun[FLOOP_PARTS];
};

/**
 * struct floop_holes - the known holes of one image
 * @lock: held to change the bits, and what counts writes that begin
 * @bits: the bits; NULL if there is no memory for them, or the guard is off
 * @nr_moved: the number of granules in @bits whose blocks may have moved, or
 *	more; not 0 without @bits
 * @begun: the number of writes through the file system that have come
 * @ended: how many of these have ended
 * @part_begun: how many have come to a part
 * @part_ended: how many of these have ended
 */
struct floop_holes {
	spinlock_t lock; /* holds up writes that begin while a hole is added */
	struct floop_hole_bits __rcu *bits;
	unsigned long nr_moved;
	unsigned long begun;
	atomic_long_t ended;
	unsigned long part_begun[FLOOP_PARTS];
	atomic_long_t part_ended[FLOOP_PARTS];
};

void floop_holes_init_image(struct floop_image *image);
void floop_holes_start(struct floop_image *image, sector_t sectors);
void floop_holes_stop(struct floop_image *image);
void floop_holes_clear(struct floop_image *image);
bool floop_holes_look(struct floop_image *image, unsigned long *begun);
bool floop_holes_add(struct floop_image *image, sector_t sector, sector_t end,
		     unsigned long begun);
void floop_holes_remove(struct floop_image *image, sector_t sector,
			sector_t nr);
void floop_holes_look_at_parts(struct floop_image *image,
			       struct floop_quiet *quiet);
bool floop_holes_are_quiet(struct floop_image *image,
			   const struct floop_quiet *quiet, sector_t sector,
			   sector_t nr);
sector_t floop_holes_begin(struct floop_image *image, sector_t sector,
			   sector_t end);
sector_t floop_holes_end(struct floop_image *image, sector_t sector,
			 sector_t end);
sector_t floop_holes_unmoved(struct floop_image *image, sector_t sector,
			     sector_t nr);
bool floop_holes_moved(struct floop_image *image, sector_t *sector,
		       sector_t *nr);
void floop_holes_settle(struct floop_image *image, sector_t sector,
			sector_t nr);
void floop_holes_write_begin(struct floop_io *io);
void floop_holes_write_end(struct floop_io *io);
bool floop_holes_have(struct floop_image *image, sector_t sector, sector_t nr);
bool floop_holes_read(struct floop_image *image, struct bio *bio);

#endif /* FLOOP_HOLE_H */
