/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Where mapped I/O to a file that shares blocks (shared.h) is in flight: others
 * wait for it. A part of the file has a few slots, which take little time, and
 * a list for what finds no free one.
 */
#ifndef FLOOP_INSIDE_H
#define FLOOP_INSIDE_H

#include <linux/atomic.h>
#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/wait.h>

#include "hole.h"
#include "range.h"

/* More than this at once in a part are there with a deep queue only. */
#define FLOOP_SLOTS	4U

/**
 * struct floop_inside_part - what is in flight in a part of the file
 * @slots: the place of an I/O each: floop_inside_pack(); 0: free
 * @lock: protects @ranges; taken in interrupts
 * @ranges: the I/O without a slot
 */
struct floop_inside_part {
	atomic64_t slots[FLOOP_SLOTS];
	/* protects the list; taken in interrupts */
	spinlock_t lock;
	struct list_head ranges;
};

/**
 * struct floop_inside - what is in flight in a file
 * @parts: the parts of the file take turns in them
 * @ended: waiters for I/O to end
 */
struct floop_inside {
	struct floop_inside_part parts[FLOOP_PARTS];
	wait_queue_head_t ended;
};

/**
 * struct floop_inside_io - an I/O that is in flight
 * @range: where; not empty, and in one part of the file
 * @slot: its slot, or NULL: @range is in the list
 */
struct floop_inside_io {
	struct floop_range range;
	atomic64_t *slot;
};

void floop_inside_init(struct floop_inside *inside);
void floop_inside_enter_list(struct floop_inside_part *part,
			     struct floop_inside_io *io);
void floop_inside_leave_list(struct floop_inside_part *part,
			     struct floop_inside_io *io);
void floop_inside_change(struct floop_inside *inside,
			 struct floop_inside_io *io, sector_t sector,
			 sector_t end);
bool floop_inside_is_quiet(struct floop_inside *inside, sector_t sector,
			   sector_t end, bool wait);

/* Both in granules of 4 KiB, as far as they reach: where, and how many. */
#define FLOOP_INSIDE_GRANULE	3U	/* of sectors */
#define FLOOP_INSIDE_NR		(floop_part_shift() - FLOOP_INSIDE_GRANULE + 1)

static inline u64 floop_inside_pack(sector_t sector, sector_t end)
{
	u64 first = sector >> FLOOP_INSIDE_GRANULE;
	u64 nr = ((end - 1) >> FLOOP_INSIDE_GRANULE) - first + 1;

	return first << FLOOP_INSIDE_NR | nr;
}

static inline struct floop_inside_part *
floop_inside_part_of(struct floop_inside *inside, sector_t sector)
{
	return &inside->parts[floop_first_part(sector) % FLOOP_PARTS];
}

static inline void floop_inside_wake(struct floop_inside *inside)
{
	/* A waiter is seen here, or sees the change: see wait_event(). */
	smp_mb();
	/* After the barrier */
	if (unlikely(waitqueue_active(&inside->ended)))
		wake_up_all(&inside->ended);
}

/**
 * floop_inside_enter() - an I/O is in flight from now on
 * @inside: of its file
 * @io: the I/O, with its range
 *
 * Context: Process context. A full barrier: who looks afterwards sees it, or
 * what they did before is seen after this.
 */
static inline void floop_inside_enter(struct floop_inside *inside,
				      struct floop_inside_io *io)
{
	struct floop_inside_part *part =
		floop_inside_part_of(inside, io->range.sector);
	u64 where = floop_inside_pack(io->range.sector, io->range.end);

	for (io->slot = part->slots; io->slot < part->slots + FLOOP_SLOTS;
	     io->slot++)
		if (!atomic64_read(io->slot) &&
		    !atomic64_cmpxchg(io->slot, 0, where))
			return;
	floop_inside_enter_list(part, io);
}

/**
 * floop_inside_leave() - an I/O has ended
 * @inside: of its file
 * @io: the I/O
 *
 * Context: Any, interrupts included.
 */
static inline void floop_inside_leave(struct floop_inside *inside,
				      struct floop_inside_io *io)
{
	if (likely(io->slot))
		atomic64_set_release(io->slot, 0);
	else
		floop_inside_leave_list(floop_inside_part_of(inside,
							     io->range.sector),
					io);
	floop_inside_wake(inside);
}

#endif /* FLOOP_INSIDE_H */
