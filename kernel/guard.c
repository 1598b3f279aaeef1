// SPDX-License-Identifier: GPL-2.0
/*
 * The guard's protocol. docs/safety.md has the reasoning; model/ has a model of
 * it, which spin checks.
 *
 *  - An epoch begins when the lease is held, which notices every other opener
 *    and, on xfs, every change of the image's blocks; when all dirty pages are
 *    written; and when the page cache is empty. From then on @users is live,
 *    and the map is true for the holder of a reference to it.
 *  - Somebody else comes. floop_guard_break() runs in their context, before
 *    their open or change goes on: it gives out no new reference, and one
 *    inode_dio_begin() stands for all mapped I/O in flight. A change of the
 *    file's blocks calls inode_dio_wait() first, and so waits until
 *    users_gone() has seen the last reference go. Nobody else waits.
 *  - We change the file's blocks ourselves (change.c). The epoch is paused and
 *    mapped I/O drained before the file system is called, and the range is
 *    removed from the map before the epoch resumes; unless it is a known hole.
 */
#include <linux/blkdev.h>
#include <linux/fs.h>
#include <linux/sched/mm.h>
#include <linux/timekeeping.h>

#include "device.h"
#include "fill.h"
#include "fs.h"
#include "guard.h"
#include "helper.h"
#include "image.h"
#include "lease.h"
#include "rules.h"
#include "times.h"
#include "trace.h"
#include "unshare.h"

#define RETRY_FIRST	msecs_to_jiffies(10)
#define RETRY_LAST	msecs_to_jiffies(1000)

/*
 * Broken epochs end here, and others may wait for that. All images share the
 * rescuer, so the work waits for neither I/O nor memory.
 */
static struct workqueue_struct *drain_wq;

/* The states that may follow each state. */
static const u8 may_follow[] = {
	[FLOOP_GUARD_OFF]	= BIT(FLOOP_GUARD_WAITING) |
				  BIT(FLOOP_GUARD_BEGINNING),
	[FLOOP_GUARD_WAITING]	= BIT(FLOOP_GUARD_BEGINNING) |
				  BIT(FLOOP_GUARD_OFF),
	[FLOOP_GUARD_BEGINNING]	= BIT(FLOOP_GUARD_MAPPED) |
				  BIT(FLOOP_GUARD_PAUSED) |
				  BIT(FLOOP_GUARD_BROKEN) |
				  BIT(FLOOP_GUARD_WAITING),
	[FLOOP_GUARD_MAPPED]	= BIT(FLOOP_GUARD_PAUSED) |
				  BIT(FLOOP_GUARD_BROKEN),
	[FLOOP_GUARD_PAUSED]	= BIT(FLOOP_GUARD_BEGINNING) |
				  BIT(FLOOP_GUARD_BROKEN) |
				  BIT(FLOOP_GUARD_OFF),
	[FLOOP_GUARD_BROKEN]	= BIT(FLOOP_GUARD_WAITING),
};

/* Change the state, with everything that depends on the change. */
static void guard_enter(struct floop_image *image, enum floop_guard_state to)
{
	struct floop_guard *guard = &image->guard;
	enum floop_guard_state from = guard->state;

	lockdep_assert_held(&guard->lock);
	WARN_ON_ONCE(!(may_follow[from] & BIT(to)));
	if (from == FLOOP_GUARD_MAPPED)
		percpu_ref_kill(&guard->users);
	guard->state = to;
	guard->epoch++;
	switch (to) {
	case FLOOP_GUARD_BEGINNING:
		guard->unsettled = false;
		break;
	case FLOOP_GUARD_MAPPED:
		guard->begun++;
		guard->began = jiffies;
		trace_floop_epoch_begin(image);
		floop_fill_kick(image);
		break;
	case FLOOP_GUARD_PAUSED:
		if (from == FLOOP_GUARD_MAPPED)
			trace_floop_epoch_pause(image);
		break;
	case FLOOP_GUARD_BROKEN:
		guard->broken++;
		trace_floop_epoch_break(image);
		/* Otherwise the last user or the last chunk queues it. */
		if (!guard->live && !guard->ahead)
			queue_work(drain_wq, &guard->drain_work);
		break;
	default:
		break;
	}
}

static void note_breaker(struct floop_guard *guard, struct task_struct *by)
{
	struct floop_breaker *breaker = &guard->breaker;

	memset(breaker, 0, sizeof(*breaker));
	breaker->time = ktime_get_real_seconds();
	if (!by)
		return;
	breaker->pid = task_tgid_nr(by);
	memcpy(breaker->name, by->comm, sizeof(breaker->name));
}

/**
 * floop_guard_break() - end the epoch
 * @image: the image
 * @by: who opens the image or changes it; NULL if that isn't known
 *
 * Called when somebody else opens the image or changes it. Doesn't make them
 * wait: a change of the file's blocks waits for direct I/O in flight, and
 * mapped I/O counts as that until it has ended.
 *
 * Context: The context of the opener, with the lock of the file's leases held
 * (flc_lock); or any but interrupts. Doesn't sleep.
 * Return: true if mapped I/O, or a chunk, may be in flight.
 */
bool floop_guard_break(struct floop_image *image, struct task_struct *by)
{
	struct floop_guard *guard = &image->guard;
	unsigned long flags;
	bool live;

	if (!floop_rule_holds(FLOOP_RULE_BREAK))
		return false;
	spin_lock_irqsave(&guard->lock, flags);
	switch (guard->state) {
	case FLOOP_GUARD_BEGINNING:
	case FLOOP_GUARD_MAPPED:
	case FLOOP_GUARD_PAUSED:
		guard_enter(image, FLOOP_GUARD_BROKEN);
		note_breaker(guard, by);
		if (guard->live && floop_rule_holds(FLOOP_RULE_DRAIN))
			floop_hold_changes(guard);
		break;
	default:
		break;
	}
	live = guard->live || guard->ahead;
	spin_unlock_irqrestore(&guard->lock, flags);
	return live;
}

/*
 * The last mapped I/O has ended, and no more can begin: let changes go on that
 * wait for it. Runs in any context.
 */
static void users_gone(struct percpu_ref *users)
{
	struct floop_guard *guard = container_of(users, struct floop_guard,
						 users);
	unsigned long flags;

	spin_lock_irqsave(&guard->lock, flags);
	guard->live = false;
	floop_hold_release(guard);
	if (guard->state == FLOOP_GUARD_BROKEN && !guard->ahead)
		queue_work(drain_wq, &guard->drain_work);
	wake_up_all(&guard->ended);
	spin_unlock_irqrestore(&guard->lock, flags);
}

/**
 * floop_guard_ahead_begin() - before zeroes are written behind some data
 * @image: the image
 * @epoch: set to the epoch's number
 *
 * Somebody who opens the image to write would not expect that, so they wait in
 * open(2) until floop_guard_ahead_end(), which has to follow. Mapped I/O and
 * changes don't.
 *
 * Context: A worker of the image. Doesn't sleep.
 * Return: false if somebody may have the image open already, or if a change of
 * our own is in progress.
 */
bool floop_guard_ahead_begin(struct floop_image *image, unsigned long *epoch)
{
	struct floop_guard *guard = &image->guard;
	bool mapped;

	spin_lock_irq(&guard->lock);
	mapped = guard->state == FLOOP_GUARD_MAPPED && !guard->changes;
	if (mapped)
		guard->ahead++;
	*epoch = guard->epoch;
	spin_unlock_irq(&guard->lock);
	return mapped;
}

/**
 * floop_guard_ahead_end() - the zeroes are written, or won't be
 * @image: the image
 *
 * Context: Any, interrupts included.
 */
void floop_guard_ahead_end(struct floop_image *image)
{
	struct floop_guard *guard = &image->guard;
	unsigned long flags;

	spin_lock_irqsave(&guard->lock, flags);
	if (!--guard->ahead) {
		if (guard->state == FLOOP_GUARD_BROKEN && !guard->live)
			queue_work(drain_wq, &guard->drain_work);
		wake_up_all(&guard->ended);
	}
	spin_unlock_irqrestore(&guard->lock, flags);
}

/*
 * Drop the lease, which holds up openers for as long as there are chunks. No
 * new one begins.
 */
static void drop_lease(struct floop_image *image)
{
	struct floop_guard *guard = &image->guard;

	spin_lock_irq(&guard->lock);
	wait_event_lock_irq(guard->ended, !guard->ahead, guard->lock);
	spin_unlock_irq(&guard->lock);
	floop_lease_drop(image);
}

/* With the lease held: make the file durable, and empty the page cache. */
static enum floop_unmapped prepare_epoch(struct floop_image *image)
{
	struct floop_guard *guard = &image->guard;

	guard->aops = READ_ONCE(guard->mapping->a_ops);
	if (floop_fs_is_required(image))
		return FLOOP_UNMAPPED_FILE;
	/* The mapped path is no worse for that (shared.h): with a helper. */
	if (floop_fs_claims_more(image)) {
		if (guard->exchanges)
			floop_unshare_soon(image);
		if (!guard->exchanges || !floop_helper_is_set())
			return FLOOP_UNMAPPED_FILE;
	}
	floop_cache_write_pieces(image);
	if (!READ_ONCE(guard->wanted))
		return FLOOP_UNMAPPED_OFF;
	if (floop_image_make_durable(image) ||
	    floop_cache_invalidate(image))
		return FLOOP_UNMAPPED_CACHED;
	return FLOOP_UNMAPPED_NOT;
}

static void clear_map(struct floop_image *image)
{
	struct floop_guard *guard = &image->guard;

	mutex_lock(&guard->map.lock);
	if (floop_rule_holds(FLOOP_RULE_CLEAR))
		floop_map_clear(&guard->map);
	floop_fill_restart(image);
	mutex_unlock(&guard->map.lock);
}

/*
 * Try for the lease again, at growing intervals. Nobody but
 * floop_direct_give_up() ends the epoch of a disk, for good.
 */
static void wait_again(struct floop_image *image, enum floop_unmapped why_not)
{
	struct floop_guard *guard = &image->guard;

	guard_enter(image, FLOOP_GUARD_WAITING);
	guard->why_not = image->is_bdev ? FLOOP_UNMAPPED_BUFFERED : why_not;
	if (!guard->wanted || image->is_bdev)
		return;
	floop_background_queue(&guard->begin_work, guard->retry);
	guard->retry = min(guard->retry * 2, RETRY_LAST);
}

/* Don't begin an epoch. After a break, drain_work() does the rest. */
static void guard_give_up(struct floop_image *image,
			  enum floop_unmapped why_not)
{
	struct floop_guard *guard = &image->guard;

	drop_lease(image);
	/* No break comes from here on, but one may have come just before. */
	clear_map(image);
	spin_lock_irq(&guard->lock);
	if (guard->state == FLOOP_GUARD_BEGINNING)
		wait_again(image, why_not);
	spin_unlock_irq(&guard->lock);
}

/*
 * Begin an epoch; the lease is held, and the map is true or empty. @users is
 * made live without the lock. @live is set before, so a break or a change of
 * our own that comes meanwhile waits for @users to die.
 */
static void guard_begin_epoch(struct floop_image *image)
{
	struct floop_guard *guard = &image->guard;

	spin_lock_irq(&guard->lock);
	if (guard->state != FLOOP_GUARD_BEGINNING)
		goto unlock;
	if (guard->changes || guard->unsettled) {
		guard_enter(image, FLOOP_GUARD_PAUSED);
		if (!guard->changes)
			floop_background_queue(&guard->resume_work, 0);
		goto unlock;
	}
	guard->live = true;
	spin_unlock_irq(&guard->lock);

	percpu_ref_reinit(&guard->users);

	spin_lock_irq(&guard->lock);
	if (guard->state == FLOOP_GUARD_BEGINNING && !guard->changes) {
		guard_enter(image, FLOOP_GUARD_MAPPED);
	} else {
		if (guard->state == FLOOP_GUARD_BEGINNING)
			guard_enter(image, FLOOP_GUARD_PAUSED);
		percpu_ref_kill(&guard->users);
	}
unlock:
	spin_unlock_irq(&guard->lock);
}

static bool try_to_begin(struct floop_image *image,
			 enum floop_guard_state from)
{
	struct floop_guard *guard = &image->guard;
	bool begin;

	spin_lock_irq(&guard->lock);
	/* A resumed epoch depends on our changes, a new lease doesn't. */
	begin = guard->wanted && guard->state == from && !guard->live &&
		(from == FLOOP_GUARD_WAITING || !guard->changes);
	if (begin)
		guard_enter(image, FLOOP_GUARD_BEGINNING);
	spin_unlock_irq(&guard->lock);
	return begin;
}

static void begin_work(struct work_struct *work)
{
	struct floop_image *image = container_of(to_delayed_work(work),
						 struct floop_image,
						 guard.begin_work);
	enum floop_unmapped why_not;
	unsigned int memflags;

	/* Only this work and a stop leave that state. */
	if (READ_ONCE(image->guard.state) != FLOOP_GUARD_WAITING)
		return;
	/*
	 * Two attempts would take each other's lease for their own: a resume
	 * that was broken may still be about to give up.
	 */
	cancel_delayed_work_sync(&image->guard.resume_work);
	if (!try_to_begin(image, FLOOP_GUARD_WAITING))
		return;

	/* Memory must not come from I/O to the device. */
	memflags = memalloc_noio_save();
	why_not = floop_lease_take(image);
	if (why_not == FLOOP_UNMAPPED_NOT)
		why_not = prepare_epoch(image);
	if (why_not == FLOOP_UNMAPPED_NOT)
		guard_begin_epoch(image);
	else
		guard_give_up(image, why_not);
	memalloc_noio_restore(memflags);
}

static void resume_work(struct work_struct *work)
{
	struct floop_image *image = container_of(to_delayed_work(work),
						 struct floop_image,
						 guard.resume_work);
	unsigned int memflags;

	if (!try_to_begin(image, FLOOP_GUARD_PAUSED))
		return;
	floop_window(FLOOP_WINDOW_RESUME);
	memflags = memalloc_noio_save();
	if (floop_cache_drop(image))
		guard_begin_epoch(image);
	else
		/* A new epoch begins with an empty page cache. */
		guard_give_up(image, FLOOP_UNMAPPED_CACHED);
	memalloc_noio_restore(memflags);
}

/* Only waiters for the lease wait for this; changes wait for users_gone(). */
static void drain_work(struct work_struct *work)
{
	struct floop_image *image = container_of(work, struct floop_image,
						 guard.drain_work);
	struct floop_guard *guard = &image->guard;
	bool drained;

	spin_lock_irq(&guard->lock);
	drained = guard->state == FLOOP_GUARD_BROKEN && !guard->live &&
		  !guard->ahead;
	spin_unlock_irq(&guard->lock);
	if (!drained)
		return;
	floop_window(FLOOP_WINDOW_DRAIN);
	/* An atomic write on xfs waits for the lease. */
	floop_lease_drop(image);
	clear_map(image);
	trace_floop_epoch_drain(image);

	spin_lock_irq(&guard->lock);
	/* An epoch longer than the wait for it restarts the intervals. */
	if (time_after(jiffies, guard->began + guard->retry))
		guard->retry = RETRY_FIRST;
	wait_again(image, FLOOP_UNMAPPED_OPENED);
	spin_unlock_irq(&guard->lock);
	floop_times_touch(image);
}

/*
 * Drop the pages that another task has read into the page cache: soon, and if
 * it goes on reading once a second.
 */
static void pages_work(struct work_struct *work)
{
	struct floop_image *image = container_of(to_delayed_work(work),
						 struct floop_image,
						 guard.pages_work);
	unsigned int memflags = memalloc_noio_save();

	/* What is dirty again will be looked for again. */
	floop_cache_try_drop(image);
	WRITE_ONCE(image->guard.dropped_at, jiffies);
	memalloc_noio_restore(memflags);
}

static void drop_cache_later(struct floop_guard *guard)
{
	bool lately = time_before(jiffies,
				  READ_ONCE(guard->dropped_at) + RETRY_LAST);

	if (!delayed_work_pending(&guard->pages_work))
		floop_background_queue(&guard->pages_work,
				       lately ? RETRY_LAST : RETRY_FIRST);
}

/**
 * floop_guard_pause() - stop mapping until @guard->changes is 0 again
 * @image: the image
 *
 * Context: Process context. Waits for mapped I/O in flight, for as long as the
 * disk takes.
 */
void floop_guard_pause(struct floop_image *image)
{
	struct floop_guard *guard = &image->guard;

	spin_lock_irq(&guard->lock);
	guard->changes++;
	if (guard->state == FLOOP_GUARD_MAPPED)
		guard_enter(image, FLOOP_GUARD_PAUSED);
	wait_event_lock_irq(guard->ended, !guard->live, guard->lock);
	spin_unlock_irq(&guard->lock);
}

/**
 * floop_guard_is_broken() - may somebody else have changed the file?
 * @guard: the guard
 *
 * Context: Process context, with a reference of the epoch.
 * Return: true if the epoch is over for good.
 */
bool floop_guard_is_broken(struct floop_guard *guard)
{
	bool broken;

	spin_lock_irq(&guard->lock);
	broken = guard->state == FLOOP_GUARD_BROKEN;
	spin_unlock_irq(&guard->lock);
	return broken;
}

/**
 * floop_guard_in_epoch() - is it still the same epoch?
 * @guard: the guard
 * @epoch: its number
 *
 * Context: Any but interrupts. The answer is safe to act on until the map's
 * lock is released: the map is cleared under that lock before another epoch
 * begins, and the change of a hole begins under it.
 * Return: true if blocks that have been looked up since may go into the map.
 */
bool floop_guard_in_epoch(struct floop_guard *guard, unsigned long epoch)
{
	bool same;

	if (!floop_rule_holds(FLOOP_RULE_EPOCH))
		return true;
	spin_lock_irq(&guard->lock);
	same = guard->state == FLOOP_GUARD_MAPPED && guard->epoch == epoch &&
	       !guard->changes;
	spin_unlock_irq(&guard->lock);
	return same;
}

/* A block device is its own map, and needs no lease. */
static void start_bdev(struct floop_image *image)
{
	struct floop_guard *guard = &image->guard;
	int err;

	guard->aops = guard->mapping->a_ops;
	floop_cache_drop(image);
	mutex_lock(&guard->map.lock);
	err = floop_map_add(&guard->map, 0, bdev_nr_sectors(guard->disk), 0);
	mutex_unlock(&guard->map.lock);
	spin_lock_irq(&guard->lock);
	guard->why_not = err ? FLOOP_UNMAPPED_NO_MEMORY :
			       FLOOP_UNMAPPED_BEGINNING;
	if (!err)
		guard_enter(image, FLOOP_GUARD_BEGINNING);
	spin_unlock_irq(&guard->lock);
	if (!err)
		guard_begin_epoch(image);
}

/* Save what the guard checks at each I/O. */
static void learn_file(struct floop_image *image)
{
	struct floop_guard *guard = &image->guard;

	guard->mapping = image->file->f_mapping;
	guard->disk = floop_image_disk(image);
	guard->forbidden = floop_fs_forbidden_flags(image);
	/* A read-only image may have readers; their pages are up to date. */
	guard->any_pages = image->is_bdev || !image->read_only ? ULONG_MAX : 0;
	guard->gap_mask = image->rules.align > SECTOR_SIZE ?
			  queue_virt_boundary(bdev_get_queue(guard->disk)) : 0;
	guard->exchanges = floop_fs_is_xfs(guard->mapping->host);
	guard->readers_end = !image->read_only && !guard->exchanges;
	guard->retry = RETRY_FIRST;
	guard->dropped_at = jiffies - RETRY_LAST;
}

/**
 * floop_guard_start() - map an image, if it can be
 * @image: an image that isn't mapped
 * @wanted: false: don't map it
 *
 * Returns before any I/O is mapped: the lease is refused while the caller has
 * the image open.
 *
 * Context: Process context, with the device's lock held. May sleep.
 */
void floop_guard_start(struct floop_image *image, bool wanted)
{
	struct floop_guard *guard = &image->guard;
	enum floop_unmapped why_not;

	why_not = wanted ? floop_fs_check(image) : FLOOP_UNMAPPED_OFF;
	if (why_not == FLOOP_UNMAPPED_NOT && !image->is_bdev &&
	    floop_fill_start(image))
		why_not = FLOOP_UNMAPPED_NO_MEMORY;
	if (why_not != FLOOP_UNMAPPED_NOT) {
		WRITE_ONCE(guard->why_not, why_not);
		return;
	}
	learn_file(image);
	guard->wanted = true;
	if (image->is_bdev) {
		start_bdev(image);
		return;
	}
	spin_lock_irq(&guard->lock);
	wait_again(image, FLOOP_UNMAPPED_BEGINNING);
	spin_unlock_irq(&guard->lock);
}

static bool quit_work(struct delayed_work *work)
{
	disable_delayed_work(work);
	return work_busy(&work->work) & WORK_BUSY_RUNNING;
}

/**
 * floop_guard_quit() - don't begin another epoch
 * @image: the image, to be closed next; no I/O is in flight, and none comes
 *
 * Context: Process context. Doesn't wait.
 * Return: true if floop_guard_stop() would wait for the file system: its work
 * is running, or is still due.
 */
bool floop_guard_quit(struct floop_image *image)
{
	struct floop_guard *guard = &image->guard;
	bool busy;

	spin_lock_irq(&guard->lock);
	WRITE_ONCE(guard->wanted, false);
	spin_unlock_irq(&guard->lock);

	busy = quit_work(&guard->begin_work);
	busy |= quit_work(&guard->resume_work);
	busy |= quit_work(&guard->pages_work);
	busy |= floop_fill_quit(image);
	busy |= floop_ahead_quit(image);
	disable_work(&guard->hold_work);
	busy |= work_busy(&guard->hold_work) & WORK_BUSY_RUNNING;
	return busy || floop_times_are_due(&image->times);
}

/**
 * floop_guard_stop() - stop mapping, and wait for mapped I/O
 * @image: the image
 *
 * Ends the epoch first, so that background work soon finds nothing left to do.
 *
 * Context: Process context. Sleeps until the last mapped I/O has ended.
 */
void floop_guard_stop(struct floop_image *image)
{
	struct floop_guard *guard = &image->guard;
	bool running, changing;

	spin_lock_irq(&guard->lock);
	running = guard->state != FLOOP_GUARD_OFF;
	WRITE_ONCE(guard->wanted, false);
	spin_unlock_irq(&guard->lock);
	if (!running)
		return;

	floop_guard_pause(image);
	cancel_delayed_work_sync(&guard->begin_work);
	cancel_delayed_work_sync(&guard->resume_work);
	cancel_delayed_work_sync(&guard->pages_work);
	cancel_work_sync(&guard->hold_work);
	changing = floop_fill_stop(image);
	/* The lease brings no break from here on, but one may have come. */
	drop_lease(image);
	floop_window(FLOOP_WINDOW_STOP);

	mutex_lock(&guard->map.lock);
	floop_map_clear(&guard->map);
	floop_shared_clear(image);
	mutex_unlock(&guard->map.lock);
	spin_lock_irq(&guard->lock);
	/* floop_direct_give_up() breaks the epoch without the lease. */
	while (guard->state == FLOOP_GUARD_BROKEN) {
		spin_unlock_irq(&guard->lock);
		flush_work(&guard->drain_work);
		spin_lock_irq(&guard->lock);
	}
	guard->changes -= 1 + changing;
	guard_enter(image, FLOOP_GUARD_OFF);
	guard->why_not = FLOOP_UNMAPPED_OFF;
	spin_unlock_irq(&guard->lock);
	/* It may have changed the state, and not have returned yet. */
	flush_work(&guard->drain_work);
	floop_times_sync(image);
}

/**
 * floop_guard_init_image() - prepare an image's guard
 * @image: the image
 *
 * Context: Process context. May sleep.
 * Return: 0 or -ENOMEM.
 */
int floop_guard_init_image(struct floop_image *image)
{
	struct floop_guard *guard = &image->guard;
	int err;

	err = percpu_ref_init(&guard->users, users_gone,
			      PERCPU_REF_INIT_DEAD | PERCPU_REF_ALLOW_REINIT,
			      GFP_KERNEL);
	if (err)
		return err;
	err = floop_map_init(&guard->map, &image->spare);
	if (err) {
		percpu_ref_exit(&guard->users);
		return err;
	}
	guard->why_not = FLOOP_UNMAPPED_OFF;
	spin_lock_init(&guard->lock);
	init_waitqueue_head(&guard->ended);
	INIT_DELAYED_WORK(&guard->begin_work, begin_work);
	INIT_DELAYED_WORK(&guard->resume_work, resume_work);
	INIT_DELAYED_WORK(&guard->pages_work, pages_work);
	INIT_WORK(&guard->hold_work, floop_hold_work);
	INIT_WORK(&guard->drain_work, drain_work);
	return 0;
}

/**
 * floop_guard_exit_image() - undo floop_guard_init_image()
 * @image: the image; no I/O is in flight, and none comes
 *
 * Afterwards no lease, no work and no mapped I/O refers to the image.
 *
 * Context: Process context. May sleep.
 */
void floop_guard_exit_image(struct floop_image *image)
{
	struct floop_guard *guard = &image->guard;

	floop_guard_stop(image);
	/* A reader of sysfs may have queued it again just before. */
	cancel_delayed_work_sync(&guard->pages_work);
	floop_map_exit(&guard->map);
	percpu_ref_exit(&guard->users);
}

/**
 * floop_guard_why_not() - is the image mapped, and if not, why?
 * @image: the image
 *
 * Context: Any but interrupts.
 * Return: %FLOOP_UNMAPPED_NOT in an epoch, else the reason.
 */
enum floop_unmapped floop_guard_why_not(struct floop_image *image)
{
	struct floop_guard *guard = &image->guard;
	enum floop_unmapped why_not;

	spin_lock_irq(&guard->lock);
	switch (guard->state) {
	case FLOOP_GUARD_MAPPED:
		if (floop_guard_flags_changed(guard))
			why_not = FLOOP_UNMAPPED_FILE;
		else if (floop_guard_has_pages(guard))
			why_not = FLOOP_UNMAPPED_CACHED;
		else
			why_not = FLOOP_UNMAPPED_NOT;
		break;
	case FLOOP_GUARD_PAUSED:
		why_not = FLOOP_UNMAPPED_CHANGING;
		break;
	case FLOOP_GUARD_BROKEN:
		why_not = FLOOP_UNMAPPED_OPENED;
		break;
	default:
		why_not = guard->why_not;
		break;
	}
	spin_unlock_irq(&guard->lock);
	if (why_not == FLOOP_UNMAPPED_CACHED)
		drop_cache_later(guard);
	return why_not;
}

/**
 * floop_guard_init() - allocate the workqueue that all guards share
 *
 * Context: Process context. May sleep.
 * Return: 0 or -ENOMEM.
 */
int floop_guard_init(void)
{
	drain_wq = alloc_workqueue("floop_drain",
				   WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	return drain_wq ? 0 : -ENOMEM;
}

/**
 * floop_guard_exit() - undo floop_guard_init()
 *
 * Context: Process context. May sleep.
 */
void floop_guard_exit(void)
{
	destroy_workqueue(drain_wq);
}

/**
 * floop_guard_breaker() - who ended the last epoch that somebody else ended
 * @image: the image
 *
 * Context: Any but interrupts.
 * Return: a copy of what the guard knows.
 */
struct floop_breaker floop_guard_breaker(struct floop_image *image)
{
	struct floop_guard *guard = &image->guard;
	struct floop_breaker breaker;

	spin_lock_irq(&guard->lock);
	breaker = guard->breaker;
	spin_unlock_irq(&guard->lock);
	return breaker;
}

/**
 * floop_guard_doubt() - an I/O can't be mapped just now
 * @image: the image, in an epoch, with changed flags or with pages
 *
 * If the flags forbid mapping, ends the epoch. If somebody has read the image
 * through its page cache, drops the pages in the background; I/O goes through
 * the file system until then.
 *
 * Context: Any but interrupts, with a reference of the epoch.
 */
void floop_guard_doubt(struct floop_image *image)
{
	struct floop_guard *guard = &image->guard;

	if (floop_guard_flags_changed(guard))
		floop_guard_break(image, NULL);
	else
		drop_cache_later(guard);
}
