/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The I/O path: the state of one bio, and the functions that serve it. lane.h
 * has the lanes.
 */
#ifndef FLOOP_IO_H
#define FLOOP_IO_H

#include <linux/atomic.h>
#include <linux/bio.h>
#include <linux/blk-cgroup.h>
#include <linux/fs.h>
#include <linux/ioprio.h>
#include <linux/llist.h>
#include <linux/uio.h>
#include <linux/workqueue.h>

#include "image.h"

struct floop_device;
struct floop_lane;

/* The data of a FUA write is written, and the flush is still to come. */
#define FLOOP_IO_WRITTEN	BIT(0)
/* The flush ahead of the data (REQ_PREFLUSH) is done. */
#define FLOOP_IO_FLUSHED	BIT(1)
/* Freeze protection of the image's file system is held. */
#define FLOOP_IO_FREEZE_HELD	BIT(2)
/* The I/O counts in the disk's statistics. */
#define FLOOP_IO_COUNTED	BIT(3)
/* Not to be merged: it is merged already, or has failed as part of one. */
#define FLOOP_IO_NOMERGE	BIT(4)
/* Several writes merged into one. */
#define FLOOP_IO_MERGED		BIT(5)
/* A FUA write that needs a flush: the file system may not make it durable. */
#define FLOOP_IO_FLUSH_AFTER	BIT(7)
/* Its flush counts in the disk's statistics. */
#define FLOOP_IO_FLUSH_COUNTED	BIT(6)
/* Refused as it came: to be tried through the bounce buffer. */
#define FLOOP_IO_BOUNCE		BIT(8)
/* A chunk: a write with zeroes behind it. */
#define FLOOP_IO_AHEAD		BIT(9)
/* Not to be made a chunk: it has failed as one, or it may not be in a hole. */
#define FLOOP_IO_PLAIN		BIT(10)
/* In the list of what is in flight. */
#define FLOOP_IO_ENTERED	BIT(11)
/* Its end has to be counted, because holes may have been looked for. */
#define FLOOP_IO_WRITE_COUNTED	BIT(12)
/* A FUA write that is durable: no flush has to cover it. */
#define FLOOP_IO_DURABLE	BIT(13)

/**
 * struct floop_io - one bio of a device
 * @iocb: the call to the file system
 * @bio: the bio; its iterator isn't advanced
 * @image: the image
 * @node: in a lane
 * @work: instead, for a buffered read that has to wait: its own work
 * @writer: the writer's lane that counts such a read
 * @done: bytes of the bio that are done
 * @flags: FLOOP_IO_*
 * @result: the file system's answer, in bytes or as a negative errno
 * @refs: references of the call to the file system, the caller's and the
 *	completion's; the last one to drop goes on with the I/O
 * @start: its arrival, in jiffies, for the disk's statistics
 * @range: what it changes, with %FLOOP_IO_ENTERED
 */
struct floop_io {
	struct kiocb iocb;
	struct bio *bio;
	struct floop_image *image;
	union {
		struct llist_node node;
		struct work_struct work;
	};
	struct floop_lane *writer;
	unsigned int done;
	unsigned int flags;
	long result;
	atomic_t refs;
	unsigned long start;
	struct floop_range range;
};

/**
 * enum floop_rw_result - the progress of floop_rw() with an I/O
 * @FLOOP_RW_DONE: it has ended, is in flight, or its rest has been queued
 * @FLOOP_RW_WOULD_WAIT: nothing is done: the file system would have to wait
 * @FLOOP_RW_WRITER_ONLY: nothing is done: it may wait for long, so only the
 *	writer may do it
 */
enum floop_rw_result {
	FLOOP_RW_DONE,
	FLOOP_RW_WOULD_WAIT,
	FLOOP_RW_WRITER_ONLY,
};

/* io.c: where a bio comes in and where it ends */
void floop_submit_bio(struct bio *bio);
void floop_io_end(struct floop_io *io, blk_status_t status,
		  struct bio_list *batch);
void floop_io_end_batch(struct bio_list *batch);
struct bio *floop_io_release_bio(struct floop_io *io);
void floop_io_check_policy(struct floop_device *dev);
void floop_io_failed(struct floop_image *image, struct bio *bio,
		     blk_status_t status);
void floop_io_count_flush(struct bio *bio, unsigned long start);
blk_status_t floop_io_status(int err);

/**
 * floop_io_is_of_cgroup() - may a cgroup's limits hold up this I/O?
 * @bio: the I/O
 *
 * Context: Any.
 * Return: false for the root's.
 */
static inline bool floop_io_is_of_cgroup(struct bio *bio)
{
	struct cgroup_subsys_state *css = bio_blkcg_css(bio);

	return css && css != blkcg_root_css;
}

/**
 * floop_io_may_be_slow() - may this I/O take longer than the disk does?
 * @bio: the I/O
 * @ioprio: its priority
 *
 * A cgroup may be throttled, and the disk's scheduler may serve the idle class
 * when there is nothing else, after seconds. Nobody else is to wait for such
 * I/O.
 *
 * Context: Any.
 * Return: true if it may.
 */
static inline bool floop_io_may_be_slow(struct bio *bio, int ioprio)
{
	return IOPRIO_PRIO_CLASS(ioprio) == IOPRIO_CLASS_IDLE ||
	       floop_io_is_of_cgroup(bio);
}

/* remap.c: the mapped path */
int floop_remap_init(void);
void floop_remap_exit(void);
int floop_remap_init_image(struct floop_image *image);
void floop_remap_exit_image(struct floop_image *image);
enum floop_cause floop_remap(struct floop_image *image, struct bio **bio);

/* merge.c: writes that are next to each other */
struct floop_io *floop_merge(struct floop_io *io, struct llist_node **next);

/* rw.c: reads and writes, by the file system */
enum floop_rw_result floop_rw(struct floop_io *io, bool wait,
			      struct bio_list *batch);
void floop_rw_end(struct floop_io *io, long result, struct bio_list *batch);
void floop_rw_iter(struct floop_io *io, struct iov_iter *iter);
loff_t floop_rw_pos(struct floop_io *io);
sector_t floop_rw_sector(struct floop_io *io);
sector_t floop_rw_sector_end(struct floop_io *io);

/* bounce.c: direct I/O for memory that isn't aligned for it */
void floop_bounce(struct floop_io *io);
int floop_bounce_init_image(struct floop_image *image);
void floop_bounce_exit_image(struct floop_image *image);
int floop_bounce_init(void);
void floop_bounce_exit(void);

/* flush.c: flushes */
int floop_flush(struct llist_node *node);
void floop_flush_fail(struct llist_node *node, int err);

/* discard.c: discard and write-zeroes */
void floop_discard(struct floop_io *io);
void floop_discard_kept(struct bio *bio);
void floop_discard_unsupported(struct work_struct *work);

#endif /* FLOOP_IO_H */
