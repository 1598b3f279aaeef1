/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How much to allocate ahead.
 */
#ifndef FLOOP_RUNS_H
#define FLOOP_RUNS_H

#include <linux/sizes.h>
#include <linux/types.h>

struct floop_image;

/* A write of so many sectors allocates enough by itself. */
#define FLOOP_RUNS_LARGE	(SZ_64K >> SECTOR_SHIFT)

/**
 * struct floop_run - writes to holes next to each other
 * @region: the region of the file that the last one was in
 * @end: where it ended
 * @unit: sectors that were allocated with it; 0: only its own
 * @nr: how many sectors it had
 * @zeroes: sectors of zeroes behind it
 * @writes: how many there were in the region, but for small ones
 * @mapped: how much I/O had been mapped when the zeroes were written
 */
struct floop_run {
	sector_t region;
	sector_t end;
	unsigned int unit;
	unsigned int nr;
	unsigned int zeroes;
	unsigned int writes;
	u64 mapped;
};

/**
 * struct floop_runs - what is remembered of an image
 * @runs: for FLOOP_ALLOCATE_AUTO, from the first write that may be to a hole
 * @looked_at: when @room was set anew, in jiffies
 * @room: no quota is enforced, and no chunk has failed since then
 */
struct floop_runs {
	struct floop_run *runs;
	unsigned long looked_at;
	bool room;
};

extern unsigned int floop_leave_free;

void floop_runs_init(struct floop_runs *runs);
void floop_runs_exit(struct floop_runs *runs);
bool floop_runs_have_room(struct floop_image *image);
void floop_runs_no_room(struct floop_image *image);
unsigned int floop_runs_unit(struct floop_image *image, sector_t sector,
			     unsigned int nr);
void floop_runs_note(struct floop_image *image, sector_t end, unsigned int nr,
		     unsigned int zeroes, unsigned int unit);

#endif /* FLOOP_RUNS_H */
