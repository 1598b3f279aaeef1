/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Count the spare blocks of an image: those that were allocated ahead (ahead.h)
 * and that no write of the device has come to since.
 */
#ifndef FLOOP_SPARE_H
#define FLOOP_SPARE_H

#include <linux/atomic.h>
#include <linux/bitops.h>
#include <linux/llist.h>
#include <linux/rcupdate.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/xarray.h>

#define FLOOP_SPARE_SHIFT	3U	/* of a granule, in sectors: 4 KiB */
#define FLOOP_SPARE_GRANULES	BIT(10)	/* of a part: 4 MiB */

struct floop_extent;

/**
 * struct floop_spare_part - the spare blocks of a part of the file
 * @rcu: readers are in an RCU read-side critical section
 * @node: in &struct floop_spare.used_up
 * @queued: it is there, or on its way; bit 0
 * @index: the number of the part
 * @nr: the number of bits that are set, or are about to be
 * @bits: a bit for each granule: it was allocated ahead, and isn't written yet
 */
struct floop_spare_part {
	struct rcu_head rcu;
	struct llist_node node;
	unsigned long queued;
	unsigned long index;
	atomic_t nr;
	DECLARE_BITMAP(bits, FLOOP_SPARE_GRANULES);
};

/**
 * struct floop_spare - the spare blocks of one image
 * @parts: the parts of the file that have some, or had some lately
 * @lock: held to add spare blocks, and to take parts away
 * @used_up: parts that have none any more
 * @live: the number of parts that have some
 * @granules: the number of granules that are spare
 * @turns: changes when a part has lost its last one, and when it is taken away
 */
struct floop_spare {
	struct xarray parts;
	spinlock_t lock; /* a part that gets some isn't taken away */
	struct llist_head used_up;
	atomic_t live;
	atomic_long_t granules;
	atomic_long_t turns;
};

void floop_spare_init(struct floop_spare *spare);
void floop_spare_exit(struct floop_spare *spare);
void floop_spare_add(struct floop_spare *spare, sector_t sector, sector_t end);
void floop_spare_used_up(struct floop_spare *spare,
			 struct floop_spare_part *part);
struct floop_spare_part *floop_spare_wrote_many(struct floop_spare *spare,
						sector_t sector, sector_t end);
void floop_spare_forget(struct floop_spare *spare, sector_t sector,
			sector_t end);
void floop_spare_tidy(struct floop_spare *spare);
struct floop_spare_part *floop_spare_clip(struct floop_spare *spare,
					  sector_t sector,
					  struct floop_extent *extent);
sector_t floop_spare_sectors(const struct floop_spare *spare);

/**
 * floop_spare_any() - has an image spare blocks?
 * @spare: of the image
 *
 * Context: Any.
 * Return: true if it has.
 */
static inline bool floop_spare_any(const struct floop_spare *spare)
{
	return atomic_read(&spare->live) > 0;
}

/**
 * floop_spare_turn() - for how long is a part known?
 * @spare: of the image
 *
 * This changes when a part can't be looked up any more, before it is freed. So
 * a part that was looked up after the value was seen is there for whoever sees
 * the same value later on, in an RCU read-side critical section.
 *
 * Context: Any. Comes before the part is looked up.
 * Return: a value that changes, too, when a part has lost its last spare block.
 */
static inline long floop_spare_turn(const struct floop_spare *spare)
{
	return atomic_long_read_acquire(&spare->turns);
}

/**
 * floop_spare_lose() - a part has lost spare blocks
 * @spare: of the image
 * @part: the part
 * @nr: the number of granules, not 0, whose bits are clear
 *
 * Context: Any, in an RCU read-side critical section.
 */
static inline void floop_spare_lose(struct floop_spare *spare,
				    struct floop_spare_part *part, int nr)
{
	atomic_long_sub(nr, &spare->granules);
	if (unlikely(atomic_sub_and_test(nr, &part->nr)))
		floop_spare_used_up(spare, part);
}

/**
 * floop_spare_wrote() - a write comes to a range
 * @spare: of the image
 * @part: a part that it may be in, or NULL; set to one that the next write may
 *	be in
 * @sector: the first sector of the image's file
 * @end: the first one behind it
 *
 * Context: Any, in an RCU read-side critical section.
 */
static inline void floop_spare_wrote(struct floop_spare *spare,
				     struct floop_spare_part **part,
				     sector_t sector, sector_t end)
{
	unsigned long granule = sector >> FLOOP_SPARE_SHIFT;
	unsigned long bit = granule % FLOOP_SPARE_GRANULES;
	struct floop_spare_part *in = *part;

	/* Most writes go to one granule, beside the last one. */
	if (!in || in->index != granule / FLOOP_SPARE_GRANULES ||
	    (end - 1) >> FLOOP_SPARE_SHIFT != granule)
		*part = floop_spare_wrote_many(spare, sector, end);
	else if (test_bit(bit, in->bits) && test_and_clear_bit(bit, in->bits))
		floop_spare_lose(spare, in, 1);
}

#endif /* FLOOP_SPARE_H */
