// SPDX-License-Identifier: GPL-2.0
/*
 * What a chunk of the fill is where it has no data: a hole, or unwritten. Reads
 * of either return zeroes; why an I/O wasn't mapped differs. A bit for each
 * chunk tells it, once all of the chunk is looked up. One that is a hole in one
 * part and unwritten in another has neither bit.
 */
#include <linux/bitops.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>

#include "fill.h"
#include "guard.h"
#include "hole.h"
#include "image.h"
#include "kinds.h"
#include "lookup.h"

/* Of what has no data in a chunk, the file system is asked about that many. */
#define MAX_PARTS		16

/* All of the batch's chunk is looked up: tell what it is without data. */
static void tell(struct floop_batch *batch, struct floop_todo *todo)
{
	if (!batch->kinds)
		return;
	assign_bit(batch->chunk, todo->hole, batch->kinds == FLOOP_KIND_HOLE);
	assign_bit(batch->chunk, todo->unwritten,
		   batch->kinds == FLOOP_KIND_UNWRITTEN);
	batch->kinds = 0;
}

/**
 * floop_kinds_ask() - is it worth asking what a part without data is?
 * @batch: the batch
 * @todo: the chunks of the file
 * @sector: where the part begins, in the file
 *
 * Not if its chunk is both in parts already, or has many of them.
 *
 * Context: The fill's work.
 * Return: false if it makes no difference.
 */
bool floop_kinds_ask(struct floop_batch *batch, struct floop_todo *todo,
		     sector_t sector)
{
	return batch->chunk != sector >> todo->shift ||
	       (batch->kinds != FLOOP_KIND_BOTH && batch->parts < MAX_PARTS);
}

/**
 * floop_kinds_note() - a range has no data
 * @batch: the batch; it has come to @sector, and its chunk is told when it is
 *	complete
 * @todo: the chunks of the file
 * @sector: the first sector of the range, in the file
 * @end: the first sector behind it
 * @kind: what the range is
 *
 * Context: The fill's work. Takes the map's lock.
 */
void floop_kinds_note(struct floop_batch *batch, struct floop_todo *todo,
		      sector_t sector, sector_t end, enum floop_kind kind)
{
	struct mutex *lock = &batch->image->guard.map.lock;
	unsigned long chunk = sector >> todo->shift;
	unsigned long last = (end - 1) >> todo->shift;
	bool in_epoch;

	mutex_lock(lock);
	in_epoch = floop_guard_in_epoch(&batch->image->guard, batch->epoch);
	for (; in_epoch && chunk <= last; chunk++) {
		if (chunk != batch->chunk) {
			tell(batch, todo);
			batch->parts = 0;
		}
		batch->chunk = chunk;
		batch->kinds |= kind;
	}
	mutex_unlock(lock);
}

/**
 * floop_kinds_skip() - begin inside of a chunk
 * @batch: the batch
 * @todo: the chunks of the file
 * @sector: where it begins; what is before it isn't known any more
 *
 * Context: The fill's work.
 */
void floop_kinds_skip(struct floop_batch *batch, struct floop_todo *todo,
		      sector_t sector)
{
	batch->chunk = sector >> todo->shift;
	batch->kinds = FLOOP_KIND_BOTH;
}

/**
 * floop_kinds_end() - look up no more in these chunks
 * @batch: the batch
 * @todo: the chunks of the file
 * @sector: how far they are looked up
 *
 * Context: The fill's work. Takes the map's lock.
 */
void floop_kinds_end(struct floop_batch *batch, struct floop_todo *todo,
		     sector_t sector)
{
	struct mutex *lock = &batch->image->guard.map.lock;

	mutex_lock(lock);
	if (batch->chunk < sector >> todo->shift &&
	    floop_guard_in_epoch(&batch->image->guard, batch->epoch))
		tell(batch, todo);
	mutex_unlock(lock);
	batch->kinds = 0;
	batch->parts = 0;
}

/**
 * floop_kinds_pass() - pass over a known hole
 * @batch: the batch
 * @todo: the chunks of the file
 * @sector: where it begins, in the file
 * @end: where the lookup ends
 *
 * Nothing has changed there since the file system was asked. What its chunk is
 * without data is told again when that is complete, so it has to be known.
 *
 * Context: The fill's work. Takes the map's lock.
 * Return: where to go on.
 */
sector_t floop_kinds_pass(struct floop_batch *batch, struct floop_todo *todo,
			  sector_t sector, sector_t end)
{
	unsigned long chunk = sector >> todo->shift;
	enum floop_kind kind = FLOOP_KIND_UNWRITTEN;
	sector_t known;

	if (test_bit(chunk, todo->hole))
		kind = FLOOP_KIND_HOLE;
	else if (!test_bit(chunk, todo->unwritten))
		return sector;
	known = floop_holes_end(batch->image, sector,
				min(end, floop_todo_next(todo, sector)));
	if (known > sector)
		floop_kinds_note(batch, todo, sector, known, kind);
	return known;
}

/**
 * floop_kinds_forget() - it isn't known any more what chunks are
 * @todo: the chunks of the file
 * @first: the first of them
 * @end: the first one behind them
 *
 * Context: Process context, with the map's lock held.
 */
void floop_kinds_forget(struct floop_todo *todo, unsigned long first,
			unsigned long end)
{
	for (; first < end && first < todo->chunks; first++) {
		if (test_bit(first, todo->hole))
			clear_bit(first, todo->hole);
		if (test_bit(first, todo->unwritten))
			clear_bit(first, todo->unwritten);
	}
}

static bool all_chunks(const unsigned long *bits, unsigned long first,
		       unsigned long end)
{
	for (; first < end; first++)
		if (!test_bit(first, bits))
			return false;
	return true;
}

/**
 * floop_kinds_cause() - why is a known hole not in the map?
 * @image: the image, in an epoch
 * @sector: the first sector of its file without data
 * @nr: the number of sectors, not 0
 *
 * By chunks of 4 MiB or more: of one that is a hole in one part and unwritten
 * in another, it isn't known which part is which.
 *
 * Context: With a reference of the epoch. Doesn't sleep.
 * Return: %FLOOP_CAUSE_HOLE or %FLOOP_CAUSE_UNWRITTEN, or %FLOOP_CAUSE_EMPTY if
 * it isn't known to be one of the two as a whole.
 */
enum floop_cause floop_kinds_cause(struct floop_image *image, sector_t sector,
				   sector_t nr)
{
	enum floop_cause cause = FLOOP_CAUSE_EMPTY;
	unsigned long first, end;
	struct floop_todo *todo;

	rcu_read_lock();
	/* Who takes it away has waited for the end of the epoch. */
	todo = rcu_dereference(image->fill.todo);
	first = sector >> todo->shift;
	end = min_t(sector_t, todo->chunks,
		    ((sector + nr - 1) >> todo->shift) + 1);
	if (all_chunks(todo->hole, first, end))
		cause = FLOOP_CAUSE_HOLE;
	else if (all_chunks(todo->unwritten, first, end))
		cause = FLOOP_CAUSE_UNWRITTEN;
	rcu_read_unlock();
	return cause;
}
