// SPDX-License-Identifier: GPL-2.0
/*
 * Where mapped I/O is in flight (inside.h): the list, and whoever looks.
 */
#include <linux/bits.h>
#include <linux/sched.h>

#include "inside.h"

/**
 * floop_inside_init() - prepare a file without I/O in flight
 * @inside: of the file, zeroed
 *
 * Context: Any.
 */
void floop_inside_init(struct floop_inside *inside)
{
	unsigned int part;

	for (part = 0; part < FLOOP_PARTS; part++) {
		spin_lock_init(&inside->parts[part].lock);
		INIT_LIST_HEAD(&inside->parts[part].ranges);
	}
	init_waitqueue_head(&inside->ended);
}

/**
 * floop_inside_enter_list() - floop_inside_enter() without a free slot
 * @part: the part that it is in
 * @io: the I/O
 *
 * Context: Process context. A full barrier, as there.
 */
void floop_inside_enter_list(struct floop_inside_part *part,
			     struct floop_inside_io *io)
{
	io->slot = NULL;
	spin_lock_irq(&part->lock);
	list_add(&io->range.node, &part->ranges);
	spin_unlock_irq(&part->lock);
	/* The lock keeps what follows inside of it, no more. */
	smp_mb();
}

/**
 * floop_inside_leave_list() - floop_inside_leave() without a slot
 * @part: the part that it is in
 * @io: the I/O
 *
 * Context: Any, interrupts included.
 */
void floop_inside_leave_list(struct floop_inside_part *part,
			     struct floop_inside_io *io)
{
	unsigned long flags;

	spin_lock_irqsave(&part->lock, flags);
	list_del(&io->range.node);
	spin_unlock_irqrestore(&part->lock, flags);
}

/**
 * floop_inside_change() - an I/O in flight is somewhere else
 * @inside: of its file
 * @io: the I/O
 * @sector: its first sector in the file; in the same part as before
 * @end: the first one behind it
 *
 * Context: Any, interrupts included.
 */
void floop_inside_change(struct floop_inside *inside,
			 struct floop_inside_io *io, sector_t sector,
			 sector_t end)
{
	struct floop_inside_part *part = floop_inside_part_of(inside, sector);
	unsigned long flags;

	spin_lock_irqsave(&part->lock, flags);
	io->range.sector = sector;
	io->range.end = end;
	if (io->slot)
		atomic64_set(io->slot, floop_inside_pack(sector, end));
	spin_unlock_irqrestore(&part->lock, flags);
	floop_inside_wake(inside);
}

static bool is_in_slot(atomic64_t *slot, sector_t sector, sector_t end)
{
	/* What is free has been left: what was done before is seen. */
	u64 where = atomic64_read_acquire(slot);
	struct floop_range range;

	range.sector = where >> FLOOP_INSIDE_NR << FLOOP_INSIDE_GRANULE;
	range.end = range.sector + ((where & (BIT_ULL(FLOOP_INSIDE_NR) - 1))
				    << FLOOP_INSIDE_GRANULE);
	return where && floop_range_overlaps(&range, sector, end);
}

static bool is_in_part(struct floop_inside_part *part, sector_t sector,
		       sector_t end)
{
	struct floop_range *range;
	unsigned long flags;
	bool found = false;
	unsigned int i;

	for (i = 0; i < FLOOP_SLOTS; i++)
		if (is_in_slot(&part->slots[i], sector, end))
			return true;
	spin_lock_irqsave(&part->lock, flags);
	list_for_each_entry(range, &part->ranges, node) {
		found = floop_range_overlaps(range, sector, end);
		if (found)
			break;
	}
	spin_unlock_irqrestore(&part->lock, flags);
	return found;
}

/**
 * floop_inside_is_quiet() - is no I/O in flight in a range?
 * @inside: of the file
 * @sector: the first sector of the range, in the file
 * @end: the first one behind it
 * @wait: wait for what there is
 *
 * Context: Any; with @wait process context, and sleeps as long as the disk
 * takes.
 * Return: false if some may be, never with @wait. If it is true, whoever enters
 * the range from now on sees what the caller did before.
 */
bool floop_inside_is_quiet(struct floop_inside *inside, sector_t sector,
			   sector_t end, bool wait)
{
	sector_t last = floop_last_part(sector, end - sector), nr;

	/* Pairs with floop_inside_enter(). */
	smp_mb();
	for (nr = floop_first_part(sector); nr <= last; nr++) {
		struct floop_inside_part *part =
			&inside->parts[nr % FLOOP_PARTS];

		if (!is_in_part(part, sector, end))
			continue;
		if (!wait)
			return false;
		wait_event(inside->ended, !is_in_part(part, sector, end));
	}
	return true;
}
