/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Fill the map in the background with the locations of the image's blocks.
 */
#ifndef FLOOP_FILL_H
#define FLOOP_FILL_H

#include <linux/rcupdate.h>
#include <linux/types.h>

struct floop_ask;
struct floop_image;

/* The delay before blocks are looked up again that couldn't be listed. */
#define FLOOP_RELIST_FIRST	HZ

/**
 * struct floop_todo - the chunks of a file that are to be looked up
 * @rcu: readers hold rcu_read_lock(), or are the fill's work
 * @ask: the fill's work
 * @chunks: the number of chunks
 * @shift: log2 of the sectors of a chunk
 * @hole: a bit for each chunk: where it has no data it is a hole
 * @unwritten: a bit for each chunk: where it has no data it has blocks
 * @bits: a bit for each chunk: it may have blocks that are not in the map yet;
 *	the bits of @hole and @unwritten follow
 *
 * @hole and @unwritten change with the map's lock held. A chunk has neither bit
 * if it is both in parts, or if the file system hasn't told.
 */
struct floop_todo {
	struct rcu_head rcu;
	struct floop_ask *ask;
	unsigned long chunks;
	unsigned int shift;
	unsigned long *hole;
	unsigned long *unwritten;
	unsigned long bits[];
};

/* The first sector of the chunk behind that of @sector */
static inline sector_t floop_todo_next(const struct floop_todo *todo,
				       sector_t sector)
{
	return ((sector >> todo->shift) + 1) << todo->shift;
}

/**
 * struct floop_fill - the fill of one image
 * @todo: the chunks of the file, as large as it was when the guard was started
 * @near: the sector that was missed last
 * @rest: where the last batch had no more room; all before it in its chunk is
 *	looked up; or %FLOOP_NOWHERE
 * @full: the map has reached its bound (map_memory)
 * @shared: xfs tells of no block of the file but in a list, because it shares
 *	some with another file, or has shared some; set in an epoch only
 * @still_shares: a block that it shares has been listed, since all was looked
 *	up again
 * @unlisted: no list is to be had
 * @asked: one was asked for
 * @late: the work is queued for nothing urgent
 * @maybe_shared: outside of an epoch: that may be why it can't begin
 * @unshare_at: when to see whether it still shares some, in jiffies
 * @unshare_wait: how long to wait until then the next time, in jiffies
 * @unsharing: that is under way, a change of ours
 * @linger: how long to wait for the next write after one through the file
 *	system, in jiffies
 * @took: the time that the lookup has taken so far, in ns
 * @backoff: the delay after a failure, in jiffies; 0 after a success
 * @busy_wait: the delay after writes have kept blocks unmapped, in jiffies
 * @relist: the delay before the next list, if there was none, in jiffies
 * @wrote: incremented by each write through the file system, and each change
 * @gap: the start of a range without data, in sectors
 * @gap_end: its end; valid if @wrote is still @seen
 * @data: the start of a range without holes, in sectors
 * @data_end: its end; valid if @wrote is still @seen
 * @data_unsure: there were pages in the page cache when it was looked up
 * @seen: @wrote when these were looked up
 * @unsure: the first sector that may be in a hole that writes kept unknown, or
 *	shared, which somebody's pages kept unknown
 * @unsure_end: the end of the last such range; 0: there is none
 * @again: the delay before these are looked for
 *
 * @rest, and from @unshare_wait on all but @unsharing, @linger, @backoff and
 * @wrote, are for the fill's work only.
 */
struct floop_fill {
	struct floop_todo __rcu *todo;
	sector_t near;
	sector_t rest;
	bool full;
	bool shared;
	bool still_shares;
	bool unlisted;
	bool asked;
	bool late;
	bool maybe_shared;
	unsigned long unshare_at;
	unsigned long unshare_wait;
	bool unsharing;
	unsigned long linger;
	u64 took;
	unsigned long backoff;
	unsigned long busy_wait;
	unsigned long relist;
	unsigned long wrote;
	sector_t gap;
	sector_t gap_end;
	sector_t data;
	sector_t data_end;
	bool data_unsure;
	unsigned long seen;
	sector_t unsure;
	sector_t unsure_end;
	unsigned long again;
};

int floop_fill_start(struct floop_image *image);
bool floop_fill_quit(struct floop_image *image);
bool floop_fill_stop(struct floop_image *image);
void floop_fill_kick(struct floop_image *image);
void floop_fill_restart(struct floop_image *image);
void floop_fill_changed(struct floop_image *image);
void floop_fill_discarded(struct floop_image *image, sector_t sector,
			  sector_t nr);
void floop_fill_missed(struct floop_image *image, sector_t sector);
int floop_fill_now(struct floop_ask *ask, sector_t sector, sector_t nr,
		   unsigned long epoch);
void floop_fill_wrote(struct floop_image *image, sector_t sector, sector_t nr,
		      bool soon);

#endif /* FLOOP_FILL_H */
