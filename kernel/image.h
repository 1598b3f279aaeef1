/* SPDX-License-Identifier: GPL-2.0 */
/*
 * An image: the file (or block device) that a device is attached to, and all
 * state for I/O to it. It lives from attach to detach; LOOP_CHANGE_FD replaces
 * it.
 */
#ifndef FLOOP_IMAGE_H
#define FLOOP_IMAGE_H

#include <linux/blkdev.h>
#include <linux/fs.h>
#include <linux/list.h>
#include <linux/mempool.h>
#include <linux/mutex.h>
#include <linux/workqueue.h>

#include "ahead.h"
#include "calls.h"
#include "direct.h"
#include "fill.h"
#include "guard.h"
#include "hole.h"
#include "shared.h"
#include "spare.h"
#include "times.h"

struct floop_device;
struct floop_lanes;

/**
 * enum floop_cause - why a bio goes through the file system
 * @FLOOP_CAUSE_NONE: it doesn't
 * @FLOOP_CAUSE_DISCARD: it is a discard or a write of zeroes
 * @FLOOP_CAUSE_EPOCH: there is no epoch
 * @FLOOP_CAUSE_CACHE: the page cache has pages of the image, or the file's
 *	flags have changed
 * @FLOOP_CAUSE_FLUSH: it is a flush of writes that need an fsync
 * @FLOOP_CAUSE_HOLE: the file has no blocks there
 * @FLOOP_CAUSE_UNWRITTEN: the blocks were never written
 * @FLOOP_CAUSE_EMPTY: the file has no data there; it isn't known which of the
 *	two it is, or it is both
 * @FLOOP_CAUSE_SHARED: xfs tells of no block of the file, which shares blocks
 *	with another one, or has shared some
 * @FLOOP_CAUSE_BLOCKS: not all of its blocks are in the map for another reason,
 *	or not in one piece where it can't be split
 * @FLOOP_CAUSE_ALIGNMENT: the disk can't take its memory as it is
 * @FLOOP_CAUSE_DISK: the disk can't take it: it is read-only or a swap, or it
 *	would have to wait
 * @FLOOP_CAUSE_FROZEN: the file system is frozen or read-only
 * @FLOOP_CAUSE_MEMORY: there is no memory for it
 * @FLOOP_CAUSES: the number of causes
 */
enum floop_cause {
	FLOOP_CAUSE_NONE,
	FLOOP_CAUSE_DISCARD,
	FLOOP_CAUSE_EPOCH,
	FLOOP_CAUSE_CACHE,
	FLOOP_CAUSE_FLUSH,
	FLOOP_CAUSE_HOLE,
	FLOOP_CAUSE_UNWRITTEN,
	FLOOP_CAUSE_EMPTY,
	FLOOP_CAUSE_SHARED,
	FLOOP_CAUSE_BLOCKS,
	FLOOP_CAUSE_ALIGNMENT,
	FLOOP_CAUSE_DISK,
	FLOOP_CAUSE_FROZEN,
	FLOOP_CAUSE_MEMORY,
	FLOOP_CAUSES,
};

/**
 * struct floop_counts - counters of I/O; one for each CPU
 * @mapped: bios that went straight to the disk
 * @holes: reads of holes that were answered at once
 * @file: bios that went through the file system, by their cause
 * @failed: bios that ended with an error, in whatever way
 */
struct floop_counts {
	u64 mapped;
	u64 holes;
	u64 file[FLOOP_CAUSES];
	u64 failed;
};

/**
 * enum floop_sync - whether writes through the file system are durable
 * @FLOOP_SYNCED: all of them; a flush needs only the disk
 * @FLOOP_UNSYNCED: some may not be; a flush needs an fsync
 * @FLOOP_SYNCING: an fsync is in progress, and none has come since it began
 */
enum floop_sync {
	FLOOP_SYNCED,
	FLOOP_UNSYNCED,
	FLOOP_SYNCING,
};

/**
 * struct floop_image - a file, and the state for I/O to it
 * @file: the file; our reference
 * @sync_file: another descriptor of it, for the guard's own fsyncs; NULL if
 *	@file isn't our own, @file itself for a read-only image
 * @own_file: we have opened these descriptors; nobody else has them
 * @offset: where the device begins in the file, in bytes
 * @read_only: writes fail
 * @is_bdev: the image is a block device
 * @nowait: the file system can say -EAGAIN instead of blocking (%FMODE_NOWAIT)
 * @dsync: IOCB_DSYNC on a write, asynchronous or not, makes it durable
 * @flushes: fsync flushes the disk that the data is on
 * @direct: I/O is direct; changes only while the queue is frozen
 * @rules: the rules of direct I/O to the file
 * @lanes: the device's lanes
 * @ios: the reserve of struct floop_io
 * @bounce_lock: held to use @bounce
 * @bounce: for memory that isn't aligned for direct I/O; NULL: the shared
 *	reserve
 * @bounce_size: its size, in bytes; a multiple of the alignment
 * @unsupported: the FALLOC_FL_* modes that the file system has refused
 * @unsupported_work: clears the queue's limits for @unsupported
 * @refused_lock: protects @refused
 * @refused: bios to be done again without direct I/O
 * @refused_work: does them again
 * @gfp_mask: the mask of the file's page cache before it was an image
 * @restricted: in the list of images whose mask is restricted
 * @sync: whether writes through the file system are durable
 * @guard: knows whether the map is true
 * @fill: fills the map
 * @ahead: allocates ahead
 * @spare: what was allocated ahead and isn't written yet
 * @holes: knows holes
 * @shared: knows the blocks that it shares
 * @calls: writes that the file system hasn't returned from
 * @times: keeps the file's times
 * @remaps: the reserve of struct remap
 * @splits: the reserve of bios for the mapped path
 * @counts: counters of I/O
 * @dev: the device
 */
struct floop_image {
	struct file *file;
	struct file *sync_file;
	bool own_file;
	loff_t offset;
	bool read_only;
	bool is_bdev;
	bool nowait;
	bool dsync;
	bool flushes;
	bool direct;
	struct floop_direct_rules rules;
	struct floop_lanes *lanes;
	mempool_t ios;
	/* protects the bounce buffer */
	struct mutex bounce_lock;
	struct page *bounce;
	unsigned int bounce_size;
	unsigned long unsupported;
	struct work_struct unsupported_work;
	/* protects the list; taken in interrupts */
	spinlock_t refused_lock;
	struct bio_list refused;
	struct work_struct refused_work;
	gfp_t gfp_mask;
	struct list_head restricted;
	enum floop_sync sync;
	struct floop_guard guard;
	struct floop_fill fill;
	struct floop_ahead ahead;
	struct floop_spare spare;
	struct floop_holes holes;
	struct floop_shared shared;
	struct floop_calls calls;
	struct floop_times times;
	mempool_t remaps;
	struct bio_set splits;
	struct floop_counts __percpu *counts;
	struct floop_device *dev;
};

extern int floop_queue_depth;
extern struct workqueue_struct *floop_background_wq;

int floop_image_init(void);
void floop_image_exit(void);
int floop_image_check(struct file *file);
int floop_image_check_cycle(struct file *file, struct floop_device *dev);
struct floop_image *floop_image_open(struct floop_device *dev,
				     struct file *file, loff_t offset,
				     bool read_only);
void floop_image_close(struct floop_image *image);
int floop_image_make_durable(struct floop_image *image);
ssize_t floop_image_read(struct floop_image *image, loff_t pos, void *buf,
			 size_t size);
ssize_t floop_image_read_direct(struct floop_image *image, loff_t pos,
				void *buf, size_t size, unsigned int align);
sector_t floop_image_sectors(struct file *file, loff_t offset,
			     loff_t size_limit);
struct block_device *floop_image_disk(struct floop_image *image);
bool floop_image_is_on_hardware(struct floop_image *image);

/**
 * floop_queue() - queue work
 * @wq: the workqueue
 * @work: the work
 * @delay: in jiffies, if it isn't pending already; 0: at once
 *
 * Context: Any, interrupts included.
 */
static inline void floop_queue(struct workqueue_struct *wq,
			       struct delayed_work *work, unsigned long delay)
{
	if (delay)
		queue_delayed_work(wq, work, delay);
	else
		mod_delayed_work(wq, work, 0);
}

/**
 * floop_background_queue() - queue background work
 * @work: work that only the close of the image waits for
 * @delay: in jiffies, if it isn't pending already; 0: at once
 *
 * Context: Any, interrupts included.
 */
static inline void floop_background_queue(struct delayed_work *work,
					  unsigned long delay)
{
	floop_queue(floop_background_wq, work, delay);
}

/* cache.c: the image's page cache */
int floop_cache_write_back(struct floop_image *image);
void floop_cache_write_pieces(struct floop_image *image);
bool floop_cache_is_written(struct floop_image *image);
void floop_cache_write_soon(struct floop_image *image);
void floop_cache_prepare(struct floop_image *image);
int floop_cache_invalidate(struct floop_image *image);
int floop_cache_try_drop(struct floop_image *image);
bool floop_cache_drop(struct floop_image *image);
void floop_cache_drop_range(struct floop_image *image, loff_t pos, size_t size);
void floop_cache_restrict(struct floop_image *image);
void floop_cache_unrestrict(struct floop_image *image);

/* content.c: the sector size that an image's content was made for */
bool floop_content_takes(struct floop_image *image, unsigned int block_size);

#endif /* FLOOP_IMAGE_H */
