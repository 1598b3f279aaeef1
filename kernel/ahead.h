/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Allocate ahead: a write to a hole writes zeroes to the blocks around it, too,
 * so that later writes find blocks that are mapped.
 */
#ifndef FLOOP_AHEAD_H
#define FLOOP_AHEAD_H

#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/workqueue.h>

#include "range.h"
#include "runs.h"

struct floop_image;
struct floop_io;

/* Values of floop_device.allocate that are not a size in bytes. */
#define FLOOP_ALLOCATE_OFF	0U
#define FLOOP_ALLOCATE_AUTO	1U
#define FLOOP_ALLOCATE_LEAST	16384U
#define FLOOP_ALLOCATE_MOST	(4096U * 1024)

/**
 * struct floop_ahead - the state of one image
 * @allocate: FLOOP_ALLOCATE_* or the unit, in bytes; changes only while the
 *	queue is frozen
 * @runs: decides how much is allocated; used by the writer of the root cgroup
 *	only
 * @last: where the last chunk begins, in sectors of the file
 * @last_end: where it ends; both are for the writer of the root cgroup only
 * @lock: @ranges, @chunks, @written, and the I/O that waits for a chunk; taken
 *	in interrupts
 * @ranges: writes through the file system
 * @chunks: writes of data and zeroes
 * @written: chunks that are to be mapped
 * @ask: maps them; NULL for an image that can never be mapped
 * @useless: the number of an epoch in which chunks can't be mapped
 * @bytes: zeroes written
 * @waited: writes that have waited for a chunk
 * @undurable: incremented when blocks are mapped that need an fsync
 * @durable: the value of @undurable that an fsync has covered
 */
struct floop_ahead {
	unsigned int allocate;
	struct floop_runs runs;
	sector_t last;
	sector_t last_end;
	/* protects the lists; taken in interrupts */
	spinlock_t lock;
	struct list_head ranges;
	struct list_head chunks;
	struct list_head written;
	struct floop_ask *ask;
	unsigned long useless;
	u64 bytes;
	unsigned long waited;
	unsigned long undurable;
	unsigned long durable;
};

extern unsigned int floop_allocate_default;

int floop_ahead_init_image(struct floop_image *image);
bool floop_ahead_quit(struct floop_image *image);
void floop_ahead_exit_image(struct floop_image *image);
int floop_ahead_parse(const char *word, unsigned int *allocate);
int floop_ahead_describe(unsigned int allocate, char *buf);
void floop_ahead_set(struct floop_image *image, unsigned int allocate);
struct floop_io *floop_ahead(struct floop_io *io);

#endif /* FLOOP_AHEAD_H */
