/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The guard. It holds a lease on the image, which notifies it of every other
 * opener and of every change of the image's blocks. While the lease is held and
 * nobody has come, the map is true. docs/safety.md has the reasoning.
 */
#ifndef FLOOP_GUARD_H
#define FLOOP_GUARD_H

#include <linux/fs.h>
#include <linux/percpu-refcount.h>
#include <linux/sched.h>
#include <linux/spinlock.h>
#include <linux/time64.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "map.h"

struct block_device;
struct floop_image;

/**
 * enum floop_guard_state - the state of a guard
 * @FLOOP_GUARD_OFF: the image is not mapped, and won't be
 * @FLOOP_GUARD_WAITING: no lease is held; the guard tries for one
 * @FLOOP_GUARD_BEGINNING: the lease is held, or about to be
 * @FLOOP_GUARD_MAPPED: an epoch: the map is true
 * @FLOOP_GUARD_PAUSED: the lease is held, but we change the file ourselves
 * @FLOOP_GUARD_BROKEN: mapped I/O drains, then the lease is dropped
 *
 * guard_enter() is the only place that changes the state::
 *
 *   OFF --start--> WAITING --begin_work--> BEGINNING --begin_epoch--> MAPPED
 *    ^              ^  ^                    |  ^  |                    |  |
 *    |              |  +--lease refused-----+  |  +--our change--+     |  |
 *    |              |                          |                 v     |  |
 *    +----stop------+                          +---resume---- PAUSED <-+  |
 *    +----stop------|-----------------------------------------+  |        |
 *                   |                                            |        |
 *                   +--drain_work-- BROKEN <--somebody else------+--------+
 *
 * BEGINNING can be broken, too. A disk as the image goes from OFF to BEGINNING,
 * and stays in WAITING.
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
 * @FLOOP_UNMAPPED_FILE_SYSTEM: on a file system that isn't supported
 * @FLOOP_UNMAPPED_FILE: the file needs its file system for every I/O
 * @FLOOP_UNMAPPED_DISK: the disk can't take the device's I/O as it is
 * @FLOOP_UNMAPPED_OPENED: someone else has the image open
 * @FLOOP_UNMAPPED_NO_LEASES: the file system grants no lease
 * @FLOOP_UNMAPPED_CACHED: the image's pages don't leave the page cache
 * @FLOOP_UNMAPPED_NO_MEMORY: no memory for the map
 * @FLOOP_UNMAPPED_BEGINNING: about to be mapped
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
 * struct floop_breaker - who ended an epoch
 * @pid: the process, in the initial namespace; 0: nobody has, or it isn't known
 * @time: when, in seconds since 1970; 0: never
 * @name: the name of the thread, which may end without a zero
 */
struct floop_breaker {
	pid_t pid;
	time64_t time;
	char name[TASK_COMM_LEN];
};

/**
 * struct floop_guard - the guard of one image
 * @users: a reference for each mapped I/O in flight and each look into the map;
 *	live in an epoch
 * @mapping: the image's page cache
 * @aops: @mapping's operations when the epoch began
 * @forbidden: the inode flags (S_*) of a file that isn't mapped
 * @any_pages: all bits if no I/O is mapped while @mapping has pages, else 0
 * @gap_mask: in a block, one part of an I/O's memory ends and the next one
 *	begins at a multiple of this and 1; 0: anywhere
 * @readers_end: who opens the image to read ends the epoch as well
 * @exchanges: the file system can exchange blocks waiting for the
 *	invalidate_lock only (XFS_IOC_SWAPEXT)
 * @map: where the image's blocks are
 * @disk: the block device that they are on
 * @lock: @state, @why_not, @wanted, @epoch, @live, @dio_held, @pages_held,
 *	@ahead, @changes, @unsettled, @breaker, @retry; taken inside of a
 *	lease's own lock (flc_lock), and in interrupts
 * @state: changed by guard_enter() only
 * @why_not: while waiting: why the last attempt failed
 * @wanted: an epoch may begin
 * @epoch: counts changes of @state, so a value identifies one stay in a state,
 *	without a change of the image's blocks (change.c)
 * @live: mapped I/O may be in flight: from before @users is made live until
 *	the last reference has gone
 * @dio_held: we hold an inode_dio_begin() of the image; only while @live
 * @pages_held: we hold the invalidate_lock of @mapping, shared; only while
 *	@live
 * @ahead: chunks that are being allocated ahead; openers to write wait for them
 * @changes: our own changes of the image's blocks that are in progress
 * @unsettled: a change of ours may have left pages in the page cache
 * @ended: waiters for @live to become false, or @ahead 0
 * @told: a bit for each task that was told to wait for the lease, by its hash;
 *	under flc_lock
 * @told_at: when the last one was told, in jiffies
 * @probe: the task that finds out whether the lease notices openers
 * @probed: the lease notices openers
 * @begun: epochs begun
 * @broken: epochs ended by somebody else
 * @breaker: who ended the last one
 * @retry: the interval to the next attempt, in jiffies
 * @began: when the last epoch began, in jiffies
 * @dropped_at: when @pages_work has dropped pages, in jiffies
 * @begin_work: takes the lease and begins an epoch
 * @resume_work: resumes an epoch after changes of our own
 * @pages_work: drops the pages that keep I/O from being mapped
 * @hold_work: waits for the invalidate_lock, if the trylock fails
 * @drain_work: drops the lease and the map when a broken epoch has drained
 */
struct floop_guard {
	struct percpu_ref users;
	struct address_space *mapping;
	const struct address_space_operations *aops;
	unsigned int forbidden;
	unsigned long any_pages;
	unsigned int gap_mask;
	bool readers_end;
	bool exchanges;
	struct floop_map map;
	struct block_device *disk;
	/* protects the state */
	spinlock_t lock;
	enum floop_guard_state state;
	enum floop_unmapped why_not;
	bool wanted;
	unsigned long epoch;
	bool live;
	bool dio_held;
	bool pages_held;
	unsigned int ahead;
	unsigned int changes;
	bool unsettled;
	wait_queue_head_t ended;
	unsigned long told;
	unsigned long told_at;
	struct task_struct *probe;
	bool probed;
	unsigned long begun;
	unsigned long broken;
	struct floop_breaker breaker;
	unsigned long retry;
	unsigned long began;
	unsigned long dropped_at;
	struct delayed_work begin_work;
	struct delayed_work resume_work;
	struct delayed_work pages_work;
	struct work_struct hold_work;
	struct work_struct drain_work;
};

int floop_guard_init(void);
void floop_guard_exit(void);
int floop_guard_init_image(struct floop_image *image);
void floop_guard_exit_image(struct floop_image *image);
void floop_guard_start(struct floop_image *image, bool wanted);
bool floop_guard_quit(struct floop_image *image);
void floop_guard_stop(struct floop_image *image);
bool floop_guard_break(struct floop_image *image, struct task_struct *by);
void floop_guard_pause(struct floop_image *image);
bool floop_guard_is_broken(struct floop_guard *guard);
bool floop_guard_in_epoch(struct floop_guard *guard, unsigned long epoch);
bool floop_guard_ahead_begin(struct floop_image *image, unsigned long *epoch);
void floop_guard_ahead_end(struct floop_image *image);
void floop_guard_doubt(struct floop_image *image);
enum floop_unmapped floop_guard_why_not(struct floop_image *image);
struct floop_breaker floop_guard_breaker(struct floop_image *image);

/* hold.c: changes wait for mapped I/O in flight */
void floop_hold_changes(struct floop_guard *guard);
void floop_hold_work(struct work_struct *work);
void floop_hold_release(struct floop_guard *guard);
bool floop_hold_is_partial(struct floop_guard *guard);

/**
 * floop_guard_flags_changed() - can the file not be mapped any more?
 * @guard: the guard, in an epoch
 *
 * Inode flags can change by path, without an open that the lease would notice
 * (file_setattr(2)). ext4 changes the operations of a file to journal its data.
 *
 * Context: Any.
 * Return: true if it has.
 */
static inline bool floop_guard_flags_changed(const struct floop_guard *guard)
{
	return READ_ONCE(guard->mapping->host->i_flags) & guard->forbidden ||
	       READ_ONCE(guard->mapping->a_ops) != guard->aops;
}

/**
 * floop_guard_has_pages() - does the page cache keep I/O from being mapped?
 * @guard: the guard, in an epoch
 *
 * Pages of a read-only image do no harm. A writable image has pages if somebody
 * reads it, or has it read ahead (posix_fadvise(2) needs no read access).
 *
 * Context: Any.
 * Return: true if I/O has to go through the file system.
 */
static inline bool floop_guard_has_pages(const struct floop_guard *guard)
{
	return READ_ONCE(guard->mapping->nrpages) & guard->any_pages;
}

#endif /* FLOOP_GUARD_H */
