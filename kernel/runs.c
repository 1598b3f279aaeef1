// SPDX-License-Identifier: GPL-2.0
/*
 * How much to allocate ahead (ahead.c), by what was written before: the policy,
 * and no more. Whatever it says, nothing is lost. It is the writer of the root
 * cgroup who asks, one at a time.
 */
#include <linux/blkdev.h>
#include <linux/fcntl.h>
#include <linux/fs.h>
#include <linux/jiffies.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/percpu.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/stat.h>
#include <linux/statfs.h>

#include "ahead.h"
#include "fs.h"
#include "image.h"
#include "runs.h"

/* Runs of writes to holes that an image remembers. */
#define RUNS		1024
/*
 * Lone writes are counted by region. After so many of them the next one has the
 * region's hole allocated.
 */
#define REGION_SECTORS	(SZ_256K >> SECTOR_SHIFT)
#define LONE_WRITES	2
/* Less than that is none: a small write would have the region allocated. */
#define LONE_SECTORS	(SZ_4K >> SECTOR_SHIFT)
/* What the second write of a run allocates, and the most that later ones do. */
#define RUN_SECTORS	(SZ_64K >> SECTOR_SHIFT)
#define MOST_SECTORS	(SZ_2M >> SECTOR_SHIFT)

/* After that time the file system is asked again whether there is a quota. */
#define LOOK_LASTS	HZ

/* In percent of the file system below: left for others. */
unsigned int floop_leave_free = 5;

/**
 * floop_runs_have_room() - is there room to spare for a chunk?
 * @image: the image
 *
 * The zeroes are nobody's data, so they take neither the last of the free space
 * nor the room of an owner's quota. Nor the room of data that is yet to come:
 * all of the image's holes have to fit.
 *
 * Context: The writer of the image. May sleep.
 * Return: false if the write should be by itself.
 */
bool floop_runs_have_room(struct floop_image *image)
{
	struct floop_runs *runs = &image->ahead.runs;
	struct kstatfs statfs;
	struct kstat stat;
	u64 left, taken;

	if (time_after(jiffies, READ_ONCE(runs->looked_at) + LOOK_LASTS)) {
		WRITE_ONCE(runs->room, !floop_fs_has_quota(image->file));
		WRITE_ONCE(runs->looked_at, jiffies);
	}
	if (!READ_ONCE(runs->room) ||
	    vfs_statfs(&image->file->f_path, &statfs) ||
	    vfs_getattr_nosec(&image->file->f_path, &stat,
			      STATX_SIZE | STATX_BLOCKS, AT_STATX_SYNC_AS_STAT))
		return false;
	left = div_u64(statfs.f_blocks, 100) * READ_ONCE(floop_leave_free);
	taken = stat.blocks << SECTOR_SHIFT;
	if (taken < stat.size)
		left += div_u64(stat.size - taken, statfs.f_bsize);
	return statfs.f_bavail > left;
}

/**
 * floop_runs_no_room() - a chunk has failed: write none for a second
 * @image: the image
 *
 * Context: Any, interrupts included.
 */
void floop_runs_no_room(struct floop_image *image)
{
	struct floop_runs *runs = &image->ahead.runs;

	WRITE_ONCE(runs->room, false);
	WRITE_ONCE(runs->looked_at, jiffies);
}

/* Many an image never has a hole written to: it needs no memory for runs. */
static bool has_runs(struct floop_runs *runs)
{
	if (!runs->runs)
		runs->runs = kvcalloc(RUNS, sizeof(*runs->runs),
				      GFP_NOWAIT | __GFP_NOWARN);
	return runs->runs;
}

static struct floop_run *run_of(struct floop_runs *runs, sector_t sector)
{
	return &runs->runs[sector / REGION_SECTORS % RUNS];
}

/* I/O that was mapped, or has waited for a chunk to be written to. */
static u64 count_mapped(struct floop_image *image)
{
	u64 mapped = READ_ONCE(image->ahead.waited);
	int cpu;

	for_each_possible_cpu(cpu)
		mapped += READ_ONCE(per_cpu_ptr(image->counts, cpu)->mapped);
	return mapped;
}

/*
 * Has a chunk been written to since? Nobody looks at what is mapped, so this
 * goes by the number of mapped I/Os, which may have gone elsewhere: there has
 * to be one for each @nr sectors of zeroes.
 */
static bool is_filled(struct floop_image *image, const struct floop_run *run,
		      unsigned int nr)
{
	return count_mapped(image) - run->mapped >=
	       DIV_ROUND_UP(run->zeroes, nr);
}

/**
 * floop_runs_unit() - how much a write to a hole allocates
 * @image: the image
 * @sector: the first sector of its file that is written
 * @nr: the number of sectors, not 0
 *
 * A write that begins where another ended goes on with it: each chunk is twice
 * as long as the last one, if that has been filled by writes that aren't more
 * than twice as long as these two. A lone write allocates its own blocks only;
 * after LONE_WRITES of them in a region the next one allocates the region.
 *
 * Context: The writer of the image. Doesn't sleep.
 * Return: sectors, a power of two: all of the multiples that it is in; 0: its
 * own blocks.
 */
unsigned int floop_runs_unit(struct floop_image *image, sector_t sector,
			     unsigned int nr)
{
	struct floop_ahead *ahead = &image->ahead;
	struct floop_runs *runs = &ahead->runs;
	struct floop_run *run;

	if (ahead->allocate != FLOOP_ALLOCATE_AUTO)
		return ahead->allocate >> SECTOR_SHIFT;
	if (!has_runs(runs))
		return 0;
	run = run_of(runs, sector ? sector - 1 : 0);
	if (run->writes && run->end == sector &&
	    is_filled(image, run, 2 * max(nr, run->nr)))
		return clamp(run->unit * 2, RUN_SECTORS, MOST_SECTORS);
	run = run_of(runs, sector);
	if (run->region == sector / REGION_SECTORS &&
	    run->writes >= LONE_WRITES)
		return REGION_SECTORS;
	return 0;
}

/**
 * floop_runs_note() - remember a write to a hole
 * @image: the image
 * @end: the first sector of its file behind what was written
 * @nr: the number of sectors of the write, not 0
 * @zeroes: how many sectors of zeroes are behind them, up to @end
 * @unit: what floop_runs_unit() said; 0 if the write was by itself
 *
 * Context: The writer of the image. Doesn't sleep.
 */
void floop_runs_note(struct floop_image *image, sector_t end, unsigned int nr,
		     unsigned int zeroes, unsigned int unit)
{
	struct floop_runs *runs = &image->ahead.runs;
	struct floop_run *run;

	if (image->ahead.allocate != FLOOP_ALLOCATE_AUTO || !runs->runs)
		return;
	run = run_of(runs, end - 1);
	if (run->region != (end - 1) / REGION_SECTORS) {
		run->region = (end - 1) / REGION_SECTORS;
		run->writes = 0;
	}
	run->end = end;
	run->unit = unit;
	run->nr = nr;
	run->zeroes = zeroes;
	if (zeroes)
		run->mapped = count_mapped(image);
	if (nr >= LONE_SECTORS)
		run->writes++;
}

/**
 * floop_runs_init() - nothing is remembered, and nothing known of room
 * @runs: of an image
 *
 * Context: Any.
 */
void floop_runs_init(struct floop_runs *runs)
{
	runs->looked_at = jiffies - LOOK_LASTS - 1;
}

/**
 * floop_runs_exit() - forget all
 * @runs: of an image
 *
 * Context: Process context. May sleep.
 */
void floop_runs_exit(struct floop_runs *runs)
{
	kvfree(runs->runs);
}
