/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The guard: the map may be believed while a lease on the image is held that
 * every other opener has to break first. docs/safety.md is the account of it.
 */
#ifndef FLOOP_GUARD_H
#define FLOOP_GUARD_H

#include <linux/completion.h>
#include <linux/list.h>
#include <linux/percpu-refcount.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>

#include "map.h"

struct block_device;
struct file_lease;
struct floop_image;

/**
 * enum floop_guard_state - what the map is worth
 * @FLOOP_GUARD_OFF: nothing; the image is not mapped, and won't be
 * @FLOOP_GUARD_WAITING: nothing; no lease is held, one may be asked for
 * @FLOOP_GUARD_BEGINNING: nothing yet; the lease is held, or about to be
 * @FLOOP_GUARD_MAPPED: an epoch: it is true
 * @FLOOP_GUARD_PAUSED: nothing for now; the lease is held, we change the file
 * @FLOOP_GUARD_BROKEN: nothing any more; the lease is gone, mapped I/O drains
 */
enum floop_guard_state {
	FLOOP_GUARD_OFF,
	FLOOP_GUARD_WAITING,
	FLOOP_GUARD_BEGINNING,
	FLOOP_GUARD_MAPPED,
	FLOOP_GUARD_PAUSED,
	FLOOP_GUARD_BROKEN,
};

/**
 * enum floop_unmapped - why an image is not mapped
 * @FLOOP_UNMAPPED_NOT: it is
 * @FLOOP_UNMAPPED_OFF: turned off
 * @FLOOP_UNMAPPED_BUFFERED: I/O to the image is not direct
 * @FLOOP_UNMAPPED_FILE_SYSTEM: on a file system that the guard doesn't know
 * @FLOOP_UNMAPPED_FILE: a file that has to go through its file system
 * @FLOOP_UNMAPPED_DISK: the disk can't take the device's I/O as it is
 * @FLOOP_UNMAPPED_OPENED: someone else has the image open
 * @FLOOP_UNMAPPED_NO_LEASES: the file system grants no lease
 * @FLOOP_UNMAPPED_CACHED: the image's pages don't leave the page cache
 * @FLOOP_UNMAPPED_NO_MEMORY: there is none for the map
 * @FLOOP_UNMAPPED_BEGINNING: about to be
 * @FLOOP_UNMAPPED_CHANGING: a discard changes the image
 */
enum floop_unmapped {
	FLOOP_UNMAPPED_NOT,
	FLOOP_UNMAPPED_OFF,
	FLOOP_UNMAPPED_BUFFERED,
	FLOOP_UNMAPPED_FILE_SYSTEM,
	FLOOP_UNMAPPED_FILE,
	FLOOP_UNMAPPED_DISK,
	FLOOP_UNMAPPED_OPENED,
	FLOOP_UNMAPPED_NO_LEASES,
	FLOOP_UNMAPPED_CACHED,
	FLOOP_UNMAPPED_NO_MEMORY,
	FLOOP_UNMAPPED_BEGINNING,
	FLOOP_UNMAPPED_CHANGING,
};

/**
 * struct floop_guard - of one image
 * @users: mapped I/O in flight, and who looks into the map; live in an epoch
 * @map: where the image's blocks are
 * @disk: the block device that they are on
 * @lock: @state, @epoch, @dio_held, @changes; taken inside of the lease's
 *	own lock (flc_lock)
 * @state: what the map is worth
 * @why_not: while waiting: why the last attempt failed
 * @wanted: an epoch may be begun
 * @epoch: how many times the map has begun or ceased to be true
 * @dio_held: one inode_dio_begin() of the image is ours, until it has drained
 * @layout: the second lease, where there are two; under the leases' own lock
 * @broken_leases: what is left of it, until the first is given back
 * @changes: how many changes of our own to the image's blocks are going on
 * @unsettled: a change of ours may have left something in the page cache
 * @drained: @users is 0
 * @begun: epochs begun
 * @broken: and ended by another opener
 * @retry: how long to wait before the next attempt, in jiffies
 * @began: when the last epoch began, in jiffies
 * @begin_work: takes the lease and begins an epoch
 * @resume_work: goes on with an epoch after changes of our own
 * @drain_work: what is left to do when a broken epoch has drained
 */
struct floop_guard {
	struct percpu_ref users;
	struct floop_map map;
	struct block_device *disk;
	/* protects the state */
	spinlock_t lock;
	enum floop_guard_state state;
	enum floop_unmapped why_not;
	bool wanted;
	unsigned long epoch;
	bool dio_held;
	struct file_lease *layout;
	struct list_head broken_leases;
	unsigned int changes;
	bool unsettled;
	struct completion drained;
	unsigned long begun;
	unsigned long broken;
	unsigned long retry;
	unsigned long began;
	struct delayed_work begin_work;
	struct delayed_work resume_work;
	struct work_struct drain_work;
};

int floop_guard_init(void);
void floop_guard_exit(void);
int floop_guard_make(struct floop_image *image);
void floop_guard_free(struct floop_image *image);
void floop_guard_start(struct floop_image *image, bool wanted);
void floop_guard_stop(struct floop_image *image);
void floop_guard_break(struct floop_image *image);
bool floop_guard_change_begin(struct floop_image *image);
void floop_guard_change_end(struct floop_image *image, sector_t pos,
			    sector_t nr);
bool floop_guard_in_epoch(struct floop_guard *guard, unsigned long epoch);
void floop_guard_cached(struct floop_image *image);
enum floop_unmapped floop_guard_why_not(struct floop_image *image);
void floop_guard_queue(struct delayed_work *work, unsigned long delay);

#endif /* FLOOP_GUARD_H */
