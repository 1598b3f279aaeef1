// SPDX-License-Identifier: GPL-2.0
/*
 * The guard's protocol. docs/safety.md says what it protects from, model/ has
 * it as a model that is checked, and this is it:
 *
 *  - An epoch begins with a lease on the image that excludes every other
 *    opener, with all that is dirty written and the page cache empty. From then
 *    on @users is live, and whoever holds a reference to it may believe the map.
 *  - Another opener breaks the lease. floop_guard_break() runs in its context,
 *    before its open returns: no new reference is given out, and one
 *    inode_dio_begin() stands for all mapped I/O in flight. Whatever changes the
 *    file's blocks calls inode_dio_wait() first, and so waits until drain_work()
 *    has seen the last reference go. Nobody else waits.
 *  - We change the file's blocks ourselves: the epoch is paused and mapped I/O
 *    waited for before the file system is called, and the range is out of the
 *    map before the epoch goes on.
 */
#include <linux/blkdev.h>
#include <linux/fs.h>
#include <linux/pagemap.h>
#include <linux/sched/mm.h>

#include "device.h"
#include "fill.h"
#include "fit.h"
#include "guard.h"
#include "image.h"
#include "lease.h"
#include "names.h"
#include "rules.h"
#include "times.h"
#include "trace.h"

#define RETRY_FIRST	msecs_to_jiffies(10)
#define RETRY_LAST	msecs_to_jiffies(1000)
/* Changes come in bursts (fstrim): how long after one to wait for the next. */
#define PAUSE_LINGERS	msecs_to_jiffies(50)

/* A broken epoch drains here: other openers wait for that. */
static struct workqueue_struct *drain_wq;
/* Nobody waits for what is done here. */
static struct workqueue_struct *begin_wq;

/**
 * floop_guard_break() - somebody else is about to have the image open
 * @image: the image, with a lease on it; it is gone
 *
 * Nobody is told to wait: who changes the file's blocks waits for direct I/O in
 * flight, and mapped I/O is that until it has drained.
 *
 * Context: The opener's, with the lease's own lock held (flc_lock). Doesn't
 * sleep.
 */
void floop_guard_break(struct floop_image *image)
{
	struct floop_guard *guard = &image->guard;

	if (!floop_rule_holds(FLOOP_RULE_BREAK))
		return;
	spin_lock(&guard->lock);
	switch (guard->state) {
	case FLOOP_GUARD_MAPPED:
		percpu_ref_kill(&guard->users);
		break;
	case FLOOP_GUARD_PAUSED:
		/* If it has not drained yet, the last user sees to it. */
		if (percpu_ref_is_zero(&guard->users))
			queue_work(drain_wq, &guard->drain_work);
		break;
	case FLOOP_GUARD_BEGINNING:
		/* Who begins the epoch finds out, and sees to it. */
		break;
	default:
		spin_unlock(&guard->lock);
		return;
	}
	if (floop_rule_holds(FLOOP_RULE_DRAIN)) {
		inode_dio_begin(file_inode(image->file));
		guard->dio_held = true;
	}
	guard->state = FLOOP_GUARD_BROKEN;
	guard->epoch++;
	guard->broken++;
	trace_floop_epoch_break(image);
	spin_unlock(&guard->lock);
}

/* With the lease: nothing of the image is in memory only, or to be believed. */
static enum floop_unmapped settle(struct floop_image *image)
{
	if (floop_fit_is_special(image))
		return FLOOP_UNMAPPED_FILE;
	if (floop_image_write_back(image) ||
	    invalidate_inode_pages2(image->file->f_mapping))
		return FLOOP_UNMAPPED_CACHED;
	return FLOOP_UNMAPPED_NOT;
}

/* Without metadata: our own changes zero parts of blocks in the page cache. */
static bool drop_pages(struct floop_image *image)
{
	struct address_space *mapping = image->file->f_mapping;

	return !READ_ONCE(mapping->nrpages) ||
	       (!filemap_write_and_wait(mapping) &&
		!invalidate_inode_pages2(mapping));
}

static void retry_later(struct floop_guard *guard)
{
	lockdep_assert_held(&guard->lock);
	if (!guard->wanted)
		return;
	queue_delayed_work(begin_wq, &guard->begin_work, guard->retry);
	guard->retry = min(guard->retry * 2, RETRY_LAST);
}

/* The lease is held, and the map is true or empty. */
static void begin_epoch(struct floop_image *image)
{
	struct floop_guard *guard = &image->guard;

	spin_lock(&guard->lock);
	if (guard->state != FLOOP_GUARD_BEGINNING) {
		/* Broken already, with no user that could see to it. */
		queue_work(drain_wq, &guard->drain_work);
		goto unlock;
	}
	if (guard->changes || guard->unsettled) {
		guard->state = FLOOP_GUARD_PAUSED;
		if (!guard->changes)
			mod_delayed_work(begin_wq, &guard->resume_work, 0);
		goto unlock;
	}
	reinit_completion(&guard->drained);
	spin_unlock(&guard->lock);

	percpu_ref_reinit(&guard->users);

	spin_lock(&guard->lock);
	if (guard->state == FLOOP_GUARD_BEGINNING && !guard->changes) {
		guard->state = FLOOP_GUARD_MAPPED;
		guard->epoch++;
		guard->begun++;
		guard->began = jiffies;
		trace_floop_epoch_begin(image);
		floop_fill_kick(image);
	} else {
		if (guard->state == FLOOP_GUARD_BEGINNING)
			guard->state = FLOOP_GUARD_PAUSED;
		percpu_ref_kill(&guard->users);
	}
unlock:
	spin_unlock(&guard->lock);
}

static void begin_work(struct work_struct *work)
{
	struct floop_image *image = container_of(to_delayed_work(work),
						 struct floop_image,
						 guard.begin_work);
	struct floop_guard *guard = &image->guard;
	enum floop_unmapped why_not;
	unsigned int memflags;
	bool begin;

	if (image->is_bdev) {
		drop_pages(image);
		return;
	}

	spin_lock(&guard->lock);
	begin = guard->wanted && guard->state == FLOOP_GUARD_WAITING;
	if (begin) {
		guard->state = FLOOP_GUARD_BEGINNING;
		guard->unsettled = false;
	}
	spin_unlock(&guard->lock);
	if (!begin)
		return;

	/* What we wait for here may not wait for I/O to the device. */
	memflags = memalloc_noio_save();
	why_not = floop_leases_take(image);
	if (why_not == FLOOP_UNMAPPED_NOT)
		why_not = settle(image);
	if (why_not == FLOOP_UNMAPPED_NOT) {
		begin_epoch(image);
	} else {
		floop_leases_give_back(image);
		spin_lock(&guard->lock);
		if (guard->state == FLOOP_GUARD_BEGINNING) {
			guard->state = FLOOP_GUARD_WAITING;
			guard->why_not = why_not;
			retry_later(guard);
		} else {
			queue_work(drain_wq, &guard->drain_work);
		}
		spin_unlock(&guard->lock);
	}
	memalloc_noio_restore(memflags);
}

static bool may_resume(struct floop_guard *guard)
{
	lockdep_assert_held(&guard->lock);
	return guard->wanted && guard->state == FLOOP_GUARD_PAUSED &&
	       !guard->changes;
}

static void resume_work(struct work_struct *work)
{
	struct floop_image *image = container_of(to_delayed_work(work),
						 struct floop_image,
						 guard.resume_work);
	struct floop_guard *guard = &image->guard;
	bool resume;

	spin_lock(&guard->lock);
	resume = may_resume(guard);
	spin_unlock(&guard->lock);
	if (!resume)
		return;
	/*
	 * users_gone() has queued drain_work() for the pause, too. If that came
	 * late, it would take what we begin for what is to be drained.
	 */
	wait_for_completion(&guard->drained);
	flush_work(&guard->drain_work);

	spin_lock(&guard->lock);
	resume = may_resume(guard);
	if (resume) {
		guard->state = FLOOP_GUARD_BEGINNING;
		guard->unsettled = false;
	}
	spin_unlock(&guard->lock);
	if (!resume)
		return;
	if (drop_pages(image)) {
		begin_epoch(image);
		return;
	}
	/* Not before all of it has been settled again. */
	floop_leases_give_back(image);
	mutex_lock(&guard->map.lock);
	floop_map_clear(&guard->map);
	floop_fill_again(image);
	mutex_unlock(&guard->map.lock);
	spin_lock(&guard->lock);
	if (guard->state == FLOOP_GUARD_BEGINNING) {
		guard->state = FLOOP_GUARD_WAITING;
		guard->why_not = FLOOP_UNMAPPED_CACHED;
		retry_later(guard);
	} else {
		queue_work(drain_wq, &guard->drain_work);
	}
	spin_unlock(&guard->lock);
}

/* The last mapped I/O has ended, and no more can begin. In any context. */
static void users_gone(struct percpu_ref *users)
{
	struct floop_guard *guard = container_of(users, struct floop_guard,
						 users);

	queue_work(drain_wq, &guard->drain_work);
	complete_all(&guard->drained);
}

/*
 * Neither the inode's lock nor the invalidate_lock is taken here: whoever waits
 * for us in inode_dio_wait() may hold them.
 */
static void drain_work(struct work_struct *work)
{
	struct floop_image *image = container_of(work, struct floop_image,
						 guard.drain_work);
	struct floop_guard *guard = &image->guard;
	bool drained, dio_held;
	unsigned int memflags;

	spin_lock(&guard->lock);
	drained = guard->state == FLOOP_GUARD_BROKEN &&
		  percpu_ref_is_zero(&guard->users);
	spin_unlock(&guard->lock);
	if (!drained)
		return;
	/* Not before users_gone() is done: it must not speak of the next epoch. */
	wait_for_completion(&guard->drained);

	memflags = memalloc_noio_save();
	/* What the other opener has read meanwhile may be older than our writes. */
	if (floop_rule_holds(FLOOP_RULE_CACHE))
		invalidate_inode_pages2(image->file->f_mapping);
	mutex_lock(&guard->map.lock);
	if (floop_rule_holds(FLOOP_RULE_CLEAR))
		floop_map_clear(&guard->map);
	floop_fill_again(image);
	mutex_unlock(&guard->map.lock);
	floop_leases_give_back(image);
	trace_floop_epoch_drain(image);

	spin_lock(&guard->lock);
	dio_held = guard->dio_held;
	guard->dio_held = false;
	guard->state = FLOOP_GUARD_WAITING;
	guard->why_not = FLOOP_UNMAPPED_OPENED;
	/* It comes back as fast as it goes, if it was of use that long. */
	if (time_after(jiffies, guard->began + guard->retry))
		guard->retry = RETRY_FIRST;
	if (dio_held)
		inode_dio_end(file_inode(image->file));
	retry_later(guard);
	spin_unlock(&guard->lock);
	floop_times_touch(image);
	memalloc_noio_restore(memflags);
}

/* Nothing is mapped until guard->changes is 0 again; what was in flight has ended. */
static void end_mapped(struct floop_image *image)
{
	struct floop_guard *guard = &image->guard;
	bool wait;

	spin_lock(&guard->lock);
	guard->changes++;
	if (guard->state == FLOOP_GUARD_MAPPED) {
		guard->state = FLOOP_GUARD_PAUSED;
		guard->epoch++;
		percpu_ref_kill(&guard->users);
		trace_floop_epoch_pause(image);
	}
	wait = guard->state == FLOOP_GUARD_PAUSED ||
	       guard->state == FLOOP_GUARD_BEGINNING ||
	       guard->state == FLOOP_GUARD_BROKEN;
	spin_unlock(&guard->lock);
	if (wait)
		wait_for_completion(&guard->drained);
}

/**
 * floop_guard_change_begin() - before the image's blocks change by our hand
 * @image: the image
 *
 * Until floop_guard_change_end(), which has to follow, nothing is mapped. Mapped
 * I/O that was in flight has ended on return.
 *
 * Context: Process context. Sleeps for as long as the disk takes.
 * Return: false if the file may not be changed: what the page cache has of it
 * is older than what is on the disk, and doesn't go.
 */
bool floop_guard_change_begin(struct floop_image *image)
{
	struct floop_guard *guard = &image->guard;
	bool paused;

	if (!floop_rule_holds(FLOOP_RULE_CHANGES))
		return true;
	end_mapped(image);
	spin_lock(&guard->lock);
	paused = guard->state == FLOOP_GUARD_PAUSED;
	spin_unlock(&guard->lock);
	return !paused || drop_pages(image);
}

/**
 * floop_guard_change_end() - after the image's blocks have changed by our hand
 * @image: the image
 * @pos: the first sector of the image's file that isn't what it was
 * @nr: how many sectors of it
 *
 * Context: Process context. May sleep.
 */
void floop_guard_change_end(struct floop_image *image, sector_t pos,
			    sector_t nr)
{
	struct floop_guard *guard = &image->guard;

	if (!floop_rule_holds(FLOOP_RULE_CHANGES))
		return;
	mutex_lock(&guard->map.lock);
	if (!floop_map_remove(&guard->map, pos, nr))
		floop_fill_again(image);
	mutex_unlock(&guard->map.lock);

	spin_lock(&guard->lock);
	guard->unsettled = true;
	if (!--guard->changes && guard->state == FLOOP_GUARD_PAUSED)
		mod_delayed_work(begin_wq, &guard->resume_work, PAUSE_LINGERS);
	spin_unlock(&guard->lock);
}

/**
 * floop_guard_in_epoch() - is it still the epoch that it was?
 * @guard: the guard
 * @epoch: its number then
 *
 * Context: With the map's lock held, what is true now stays harmless until it is
 * let go: the map is cleared under that lock before another epoch begins.
 * Return: whether what was looked up since may be put into the map.
 */
bool floop_guard_in_epoch(struct floop_guard *guard, unsigned long epoch)
{
	bool same;

	if (!floop_rule_holds(FLOOP_RULE_EPOCH))
		return true;
	spin_lock(&guard->lock);
	same = guard->state == FLOOP_GUARD_MAPPED && guard->epoch == epoch;
	spin_unlock(&guard->lock);
	return same;
}

/* A block device is its own map, and needs no lease. */
static void start_bdev(struct floop_image *image)
{
	struct floop_guard *guard = &image->guard;
	int err;

	drop_pages(image);
	mutex_lock(&guard->map.lock);
	err = floop_map_add(&guard->map, 0, bdev_nr_sectors(guard->disk), 0);
	mutex_unlock(&guard->map.lock);
	if (err) {
		guard->why_not = FLOOP_UNMAPPED_NO_MEMORY;
		return;
	}
	spin_lock(&guard->lock);
	guard->why_not = FLOOP_UNMAPPED_BEGINNING;
	guard->state = FLOOP_GUARD_BEGINNING;
	guard->unsettled = false;
	spin_unlock(&guard->lock);
	begin_epoch(image);
}

/**
 * floop_guard_start() - map an image, if it can be
 * @image: an image that isn't mapped
 * @wanted: false: don't
 *
 * Context: Process context, with the device's lock held. Returns before anything
 * is mapped: the lease can't be had while the caller has the image open.
 */
void floop_guard_start(struct floop_image *image, bool wanted)
{
	struct floop_guard *guard = &image->guard;
	enum floop_unmapped why_not;

	why_not = wanted ? floop_fit_check(image) : FLOOP_UNMAPPED_OFF;
	guard->why_not = why_not;
	if (why_not != FLOOP_UNMAPPED_NOT)
		return;
	guard->disk = floop_image_disk(image);
	guard->retry = RETRY_FIRST;
	guard->wanted = true;
	if (image->is_bdev) {
		start_bdev(image);
		return;
	}
	if (floop_fill_start(image)) {
		guard->why_not = FLOOP_UNMAPPED_NO_MEMORY;
		return;
	}
	spin_lock(&guard->lock);
	guard->why_not = FLOOP_UNMAPPED_BEGINNING;
	guard->state = FLOOP_GUARD_WAITING;
	retry_later(guard);
	spin_unlock(&guard->lock);
}

/**
 * floop_guard_stop() - map nothing any more
 * @image: the image
 *
 * Context: Process context. Sleeps until the last mapped I/O has ended.
 */
void floop_guard_stop(struct floop_image *image)
{
	struct floop_guard *guard = &image->guard;
	bool running;

	spin_lock(&guard->lock);
	running = guard->state != FLOOP_GUARD_OFF;
	guard->wanted = false;
	spin_unlock(&guard->lock);
	if (!running)
		return;

	cancel_delayed_work_sync(&guard->begin_work);
	cancel_delayed_work_sync(&guard->resume_work);
	floop_fill_stop(image);
	end_mapped(image);
	floop_leases_give_back(image);
	/* If it was broken, other openers wait for what this does. */
	flush_work(&guard->drain_work);

	mutex_lock(&guard->map.lock);
	floop_map_clear(&guard->map);
	mutex_unlock(&guard->map.lock);
	spin_lock(&guard->lock);
	guard->changes--;
	guard->state = FLOOP_GUARD_OFF;
	guard->why_not = FLOOP_UNMAPPED_OFF;
	spin_unlock(&guard->lock);
	floop_times_settle(image);
}

/**
 * floop_guard_make() - prepare an image's guard
 * @image: the image
 *
 * Return: 0 or -ENOMEM.
 */
int floop_guard_make(struct floop_image *image)
{
	struct floop_guard *guard = &image->guard;
	int err;

	err = percpu_ref_init(&guard->users, users_gone,
			      PERCPU_REF_INIT_DEAD | PERCPU_REF_ALLOW_REINIT,
			      GFP_KERNEL);
	if (err)
		return err;
	err = floop_map_init(&guard->map);
	if (err) {
		percpu_ref_exit(&guard->users);
		return err;
	}
	spin_lock_init(&guard->lock);
	INIT_LIST_HEAD(&guard->broken_leases);
	init_completion(&guard->drained);
	complete_all(&guard->drained);
	INIT_DELAYED_WORK(&guard->begin_work, begin_work);
	INIT_DELAYED_WORK(&guard->resume_work, resume_work);
	INIT_WORK(&guard->drain_work, drain_work);
	return 0;
}

/**
 * floop_guard_free() - undo floop_guard_make()
 * @image: the image; no I/O is in flight, and none comes
 *
 * Context: Process context. May sleep.
 */
void floop_guard_free(struct floop_image *image)
{
	struct floop_guard *guard = &image->guard;

	floop_guard_stop(image);
	cancel_delayed_work_sync(&guard->begin_work);
	cancel_delayed_work_sync(&guard->resume_work);
	cancel_work_sync(&guard->drain_work);
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

	spin_lock(&guard->lock);
	switch (guard->state) {
	case FLOOP_GUARD_MAPPED:
		why_not = FLOOP_UNMAPPED_NOT;
		if (image->is_bdev && image->file->f_mapping->nrpages) {
			why_not = FLOOP_UNMAPPED_CACHED;
			floop_guard_cached(image);
		}
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
	spin_unlock(&guard->lock);
	return why_not;
}

/**
 * floop_guard_init() - set up what all guards share
 *
 * Return: 0 or -ENOMEM.
 */
int floop_guard_init(void)
{
	drain_wq = alloc_workqueue(FLOOP_NAME "_drain",
				   WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	if (!drain_wq)
		return -ENOMEM;
	begin_wq = alloc_workqueue(FLOOP_NAME "_map", WQ_UNBOUND | WQ_FREEZABLE,
				   0);
	if (!begin_wq) {
		destroy_workqueue(drain_wq);
		return -ENOMEM;
	}
	return 0;
}

/**
 * floop_guard_exit() - undo floop_guard_init()
 */
void floop_guard_exit(void)
{
	destroy_workqueue(begin_wq);
	destroy_workqueue(drain_wq);
}

/**
 * floop_guard_cached() - a disk that is the image has pages in its page cache
 * @image: the image
 *
 * Someone reads or writes the disk itself, through its page cache. I/O goes the
 * same way until the pages have been dropped, which is done in the background.
 *
 * Context: Any.
 */
void floop_guard_cached(struct floop_image *image)
{
	if (!delayed_work_pending(&image->guard.begin_work))
		queue_delayed_work(begin_wq, &image->guard.begin_work,
				   RETRY_LAST);
}

/**
 * floop_guard_queue() - have background work done
 * @work: what nobody waits for
 * @delay: in how many jiffies
 */
void floop_guard_queue(struct delayed_work *work, unsigned long delay)
{
	queue_delayed_work(begin_wq, work, delay);
}
