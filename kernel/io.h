/* SPDX-License-Identifier: GPL-2.0 */
/*
 * One I/O on its way: a bio of the device, and where it stands.
 */
#ifndef FLOOP_IO_H
#define FLOOP_IO_H

#include <linux/atomic.h>
#include <linux/bio.h>
#include <linux/fs.h>
#include <linux/llist.h>
#include <linux/workqueue.h>

struct floop_device;
struct floop_image;
struct floop_lane;

/* The data is written, what is left of a FUA write is the flush. */
#define FLOOP_IO_WRITTEN	BIT(0)
/* The flush that was asked for ahead of the data is done. */
#define FLOOP_IO_FLUSHED	BIT(1)
/* Freeze protection of the image's file system is held. */
#define FLOOP_IO_FREEZE_HELD	BIT(2)
/* The disk's statistics know of it. */
#define FLOOP_IO_COUNTED	BIT(3)
/* Is joined already, or has failed together with others. */
#define FLOOP_IO_ALONE		BIT(4)
/* Is several writes in one. */
#define FLOOP_IO_JOINED		BIT(5)
/* A FUA write that the file system did not promise to make durable. */
#define FLOOP_IO_FLUSH_AFTER	BIT(7)
/* The disk's statistics will know of its flush. */
#define FLOOP_IO_FLUSH_COUNTED	BIT(6)

/**
 * struct floop_io - one bio of a device
 * @iocb: the call to the file system
 * @bio: the bio; its iterator is left as it came
 * @image: the image
 * @node: in a lane
 * @work: or, for a buffered read that has to wait, work of its own
 * @writer: and whose reads it is counted with
 * @done: bytes of the bio that are done
 * @flags: FLOOP_IO_*
 * @result: what the file system said
 * @refs: of the call: the caller and the completion; the last one goes on
 * @start: when it came, in jiffies, for the disk's statistics
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
};

void floop_io_end(struct floop_io *io, blk_status_t status,
		  struct bio_list *batch);
void floop_io_end_batch(struct bio_list *batch);
struct bio *floop_io_take_back(struct floop_io *io);
void floop_io_check_policy(struct floop_device *dev);
void floop_io_log_error(struct bio *bio, blk_status_t status);
void floop_io_count_flush(struct bio *bio, unsigned long start);
blk_status_t floop_io_status(int err);

#endif /* FLOOP_IO_H */
