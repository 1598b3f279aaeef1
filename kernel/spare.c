// SPDX-License-Identifier: GPL-2.0
/*
 * Spare blocks are counted in granules of 4 KiB, whole ones only, with a bit
 * for each, in parts of 4 MiB. A write clears the bits where it goes: through
 * the file system when it is served, a mapped one when it looks up its place.
 * The mapped path has nothing of that: what a CPU has cached for it
 * (floop_map_cached()) ends where a part with spare blocks begins. So I/O to
 * such a part finds its place in another cached extent, and a write is counted
 * then (floop_map_cached_whole()).
 *
 * A part that has lost its last spare block is taken away soon. That is counted
 * (@turns), and what a CPU has cached of it isn't used any more when the count
 * has changed.
 *
 * What others write to the image isn't known. Nor is what was allocated ahead
 * before the image was attached.
 */
#include <linux/bits.h>
#include <linux/minmax.h>
#include <linux/slab.h>

#include "map.h"
#include "mask.h"
#include "spare.h"

#define PART_SHIFT	(FLOOP_SPARE_SHIFT + ilog2(FLOOP_SPARE_GRANULES))
/* Parts before an extent's sector are looked for that many times as far. */
#define CLIP_TIMES	8

/**
 * floop_spare_init() - there are no spare blocks
 * @spare: of an image
 *
 * Context: Any.
 */
void floop_spare_init(struct floop_spare *spare)
{
	xa_init(&spare->parts);
	spin_lock_init(&spare->lock);
	init_llist_head(&spare->used_up);
}

/**
 * floop_spare_exit() - forget all spare blocks
 * @spare: of an image without I/O
 *
 * Context: Process context. May sleep.
 */
void floop_spare_exit(struct floop_spare *spare)
{
	struct floop_spare_part *part;
	unsigned long index;

	xa_for_each(&spare->parts, index, part)
		kfree(part);
	xa_destroy(&spare->parts);
}

/**
 * floop_spare_used_up() - a part has lost its last spare block
 * @spare: of the image
 * @part: the part
 *
 * Context: Any, in an RCU read-side critical section.
 */
void floop_spare_used_up(struct floop_spare *spare,
			 struct floop_spare_part *part)
{
	atomic_dec(&spare->live);
	atomic_long_inc(&spare->turns);
	if (!test_and_set_bit(0, &part->queued))
		llist_add(&part->node, &spare->used_up);
}

/*
 * With the lock held: take away the parts that have no spare blocks. Who is
 * between the last of them and the count may come to the list once more.
 */
static void take_used_up(struct floop_spare *spare)
{
	struct llist_node *list = llist_del_all(&spare->used_up);
	struct floop_spare_part *part, *next;

	llist_for_each_entry_safe(part, next, list, node) {
		/* From here on it may be in the list once more. */
		clear_bit_unlock(0, &part->queued);
		/* Before the look: who makes it 0 after that sees the bit. */
		smp_mb__after_atomic();
		if (atomic_read(&part->nr) ||
		    test_and_set_bit(0, &part->queued))
			continue;
		xa_erase(&spare->parts, part->index);
		/* Then: who sees the new count doesn't find it any more. */
		smp_mb__before_atomic();
		atomic_long_inc(&spare->turns);
		kfree_rcu(part, rcu);
	}
}

/* With the lock held. NULL without memory: then its blocks aren't counted. */
static struct floop_spare_part *get_part(struct floop_spare *spare,
					 unsigned long index)
{
	struct floop_spare_part *part = xa_load(&spare->parts, index);

	if (part)
		return part;
	part = kzalloc(sizeof(*part), GFP_NOWAIT | __GFP_NOWARN);
	if (!part)
		return NULL;
	part->index = index;
	if (xa_err(xa_store(&spare->parts, index, part,
			    GFP_NOWAIT | __GFP_NOWARN))) {
		kfree(part);
		return NULL;
	}
	return part;
}

/*
 * Set or clear the bits from @first to @end of a part, each word at once.
 * Returns how many that changes.
 */
static int change_bits(struct floop_spare_part *part, unsigned long first,
		       unsigned long end, bool set)
{
	unsigned long mask, old;
	int nr = 0;

	while (first < end) {
		atomic_long_t *word =
			(atomic_long_t *)&part->bits[BIT_WORD(first)];

		mask = floop_take_mask(&first, end);
		old = set ? ~atomic_long_fetch_or(mask, word) :
			    atomic_long_fetch_andnot(mask, word);
		nr += hweight_long(old & mask);
	}
	return nr;
}

/* The end of the granules from @granule to @last that are in one part. */
static unsigned long end_in_part(unsigned long granule, unsigned long last)
{
	return min(last, round_down(granule, FLOOP_SPARE_GRANULES) +
			 FLOOP_SPARE_GRANULES);
}

/**
 * floop_spare_add() - blocks are about to be allocated ahead
 * @spare: of the image
 * @sector: the first sector of its file that gets zeroes
 * @end: the first one behind them; nobody else writes there
 *
 * Context: Process context. Doesn't sleep.
 */
void floop_spare_add(struct floop_spare *spare, sector_t sector, sector_t end)
{
	unsigned long granule = DIV_ROUND_UP_ULL(sector,
						 BIT(FLOOP_SPARE_SHIFT));
	unsigned long last = end >> FLOOP_SPARE_SHIFT, next;
	struct floop_spare_part *part;
	unsigned int first;
	int nr, added;

	spin_lock(&spare->lock);
	take_used_up(spare);
	rcu_read_lock();
	for (; granule < last; granule = next) {
		next = end_in_part(granule, last);
		part = get_part(spare, granule / FLOOP_SPARE_GRANULES);
		if (!part)
			continue;
		/* First: none of them is lost that isn't counted. */
		nr = next - granule;
		atomic_long_add(nr, &spare->granules);
		if (atomic_add_return(nr, &part->nr) == nr)
			atomic_inc(&spare->live);
		first = granule % FLOOP_SPARE_GRANULES;
		added = change_bits(part, first, first + nr, true);
		if (added < nr)
			floop_spare_lose(spare, part, nr - added);
	}
	rcu_read_unlock();
	spin_unlock(&spare->lock);
}

/**
 * floop_spare_wrote_many() - a write comes to any number of granules
 * @spare: of the image
 * @sector: the first sector of the image's file
 * @end: the first one behind it
 *
 * Context: Any, in an RCU read-side critical section.
 * Return: a part that the next write may be in, or NULL.
 */
struct floop_spare_part *floop_spare_wrote_many(struct floop_spare *spare,
						sector_t sector, sector_t end)
{
	unsigned long granule = sector >> FLOOP_SPARE_SHIFT, next;
	unsigned long last = DIV_ROUND_UP_ULL(end, BIT(FLOOP_SPARE_SHIFT));
	struct floop_spare_part *part = NULL;
	unsigned int first;
	int nr;

	for (; granule < last; granule = next) {
		next = end_in_part(granule, last);
		first = granule % FLOOP_SPARE_GRANULES;
		part = xa_load(&spare->parts, granule / FLOOP_SPARE_GRANULES);
		if (!part || !atomic_read(&part->nr))
			continue;
		nr = change_bits(part, first, first + next - granule, false);
		if (nr)
			floop_spare_lose(spare, part, nr);
	}
	return part;
}

/**
 * floop_spare_forget() - a write comes to a range, or its blocks are freed
 * @spare: of the image
 * @sector: the first sector of the image's file
 * @end: the first one behind it
 *
 * Context: Any, interrupts included.
 */
void floop_spare_forget(struct floop_spare *spare, sector_t sector,
			sector_t end)
{
	if (!floop_spare_any(spare))
		return;
	rcu_read_lock();
	floop_spare_wrote_many(spare, sector, end);
	rcu_read_unlock();
}

/* The first part from @index to @last; or behind @last. */
static unsigned long next_part(struct floop_spare *spare, unsigned long index,
			       unsigned long last)
{
	return xa_find(&spare->parts, &index, last, XA_PRESENT) ? index :
								  last + 1;
}

/**
 * floop_spare_tidy() - take parts away that have no spare blocks any more
 * @spare: of the image
 *
 * What a CPU caches would end at them.
 *
 * Context: Process context. Doesn't sleep.
 */
void floop_spare_tidy(struct floop_spare *spare)
{
	if (!llist_empty(&spare->used_up) && spin_trylock(&spare->lock)) {
		take_used_up(spare);
		spin_unlock(&spare->lock);
	}
}

/**
 * floop_spare_clip() - how much of an extent may a CPU cache?
 * @spare: of the image
 * @sector: a sector of the extent
 * @extent: the extent; set to as much of it as is in no part with spare blocks
 *
 * Context: In an RCU read-side critical section. Doesn't sleep.
 * Return: NULL; or the part that @sector is in, if that has spare blocks: then
 * @extent is as it was.
 */
struct floop_spare_part *floop_spare_clip(struct floop_spare *spare,
					  sector_t sector,
					  struct floop_extent *extent)
{
	unsigned long index = sector >> PART_SHIFT, low = index, from, width;
	unsigned long first = extent->first >> PART_SHIFT;
	unsigned long last = (extent->end - 1) >> PART_SHIFT;
	struct floop_spare_part *part = xa_load(&spare->parts, index);

	if (part && atomic_read(&part->nr))
		return part;
	last = next_part(spare, index + 1, last);
	extent->end = min(extent->end, (sector_t)last << PART_SHIFT);
	if (first < index && next_part(spare, first, index - 1) == index)
		low = first;
	for (width = 1; low > first; width *= CLIP_TIMES) {
		from = max(first, low - min(low, width));
		if (next_part(spare, from, low - 1) < low)
			break;
		low = from;
	}
	extent->first = max(extent->first, (sector_t)low << PART_SHIFT);
	return NULL;
}

/**
 * floop_spare_sectors() - how much is spare?
 * @spare: of the image
 *
 * Context: Any.
 * Return: sectors.
 */
sector_t floop_spare_sectors(const struct floop_spare *spare)
{
	return (sector_t)atomic_long_read(&spare->granules)
	       << FLOOP_SPARE_SHIFT;
}
