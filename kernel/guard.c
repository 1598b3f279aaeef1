// SPDX-License-Identifier: GPL-2.0
/*
 * The guard's protocol. docs/safety.md says what it protects from, model/ has
 * it as a model that is checked, and this is it:
 *
 *  - An epoch begins with a lease on the image that excludes every other
 *    opener, with all that is dirty written and the page cache empty. From then
 *    on @users is live, and whoever holds a reference to it may believe the map.
 *  - Another opener breaks the lease. lease_break() runs in its context, before
 *    its open returns: no new reference is given out, and one inode_dio_begin()
 *    stands for all mapped I/O in flight. Whatever changes the file's blocks
 *    calls inode_dio_wait() first, and so waits until drain_work() has seen the
 *    last reference go. Nobody else waits.
 *  - We change the file's blocks ourselves: the epoch is paused and mapped I/O
 *    waited for before the file system is called, and the range is out of the
 *    map before the epoch goes on.
 *
 * The image's own descriptor is the only one: what came with LOOP_CONFIGURE
 * belongs to a process that may keep it.
 */
#include <linux/blkdev.h>
#include <linux/cred.h>
#include <linux/delay.h>
#include <linux/fcntl.h>
#include <linux/file.h>
#include <linux/filelock.h>
#include <linux/fs.h>
#include <linux/pagemap.h>
#include <linux/sched/mm.h>

#include "compat.h"
#include "device.h"
#include "direct.h"
#include "fill.h"
#include "guard.h"
#include "image.h"
#include "names.h"
#include "rules.h"
#include "trace.h"

#define RETRY_FIRST	msecs_to_jiffies(10)
#define RETRY_LAST	msecs_to_jiffies(1000)
#define LEASE_TRIES	50
/* Changes come in bursts (fstrim): how long after one to wait for the next. */
#define PAUSE_LINGERS	msecs_to_jiffies(50)

/* A broken epoch drains here: other openers wait for that. */
static struct workqueue_struct *drain_wq;
/* Nobody waits for what is done here. */
static struct workqueue_struct *begin_wq;

static bool is_xfs(struct inode *inode)
{
	return !strcmp(inode->i_sb->s_type->name, "xfs");
}

/* File systems whose every change of a file's blocks waits as it has to. */
static bool is_known(struct inode *inode)
{
	return is_xfs(inode) || !strcmp(inode->i_sb->s_type->name, "ext4");
}

/* Can the guard do anything for this file: is it one of those, and not over them? */
static bool is_guarded(struct file *file)
{
	struct inode *inode = file->f_mapping->host;

	return S_ISREG(inode->i_mode) && inode == file_inode(file) &&
	       is_known(inode);
}

static bool lease_break(struct floop_image *image)
{
	struct floop_guard *guard = &image->guard;

	if (!floop_rule_holds(FLOOP_RULE_BREAK))
		return true;
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
		return true;
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
	return true;
}

/* True: the lease is gone at once, and the opener goes on. */
static bool open_lease_break(struct file_lease *lease)
{
	return lease_break(lease->c.flc_owner);
}

static bool layout_lease_break(struct file_lease *lease)
{
	return lease_break(container_of(lease->c.flc_owner, struct floop_image,
					guard));
}

#ifdef FLOOP_LEASE_OPEN_CONFLICT
/* We look for other openers ourselves: see take_leases(). */
static int no_open_conflict(struct file *file, int type)
{
	return 0;
}
#endif

static const struct lease_manager_operations open_lease_ops = {
	.lm_break	= open_lease_break,
	.lm_change	= lease_modify,
#ifdef FLOOP_LEASE_OPEN_CONFLICT
	.lm_open_conflict = no_open_conflict,
#endif
};

static const struct lease_manager_operations layout_lease_ops = {
	.lm_break	= layout_lease_break,
	.lm_change	= lease_modify,
#ifdef FLOOP_LEASE_OPEN_CONFLICT
	.lm_open_conflict = no_open_conflict,
#endif
};

static int take_lease(struct file *file, int type, unsigned int flags,
		      void *owner, const struct lease_manager_operations *ops)
{
	struct file_lease *lease = locks_alloc_lease();
	int err;

	if (!lease)
		return -ENOMEM;
	lease->fl_lmops = ops;
	lease->c.flc_flags = flags;
	lease->c.flc_type = type;
	lease->c.flc_owner = owner;
	lease->c.flc_pid = current->tgid;
	lease->c.flc_file = file;
	err = vfs_setlease(file, type, &lease, NULL);
	/* It is ours no more if the file system took it. */
	if (lease)
		locks_free_lease(lease);
	return err;
}

static void give_lease_back(struct file *file, void *owner)
{
	vfs_setlease(file, F_UNLCK, NULL, &owner);
}

static void give_leases_back(struct floop_image *image)
{
	if (image->is_bdev)
		return;
	give_lease_back(image->file, image);
	give_lease_back(image->file, &image->guard);
}

/* Has anybody else the image open, for anything that matters? */
static bool is_opened(struct floop_image *image)
{
	struct inode *inode = file_inode(image->file);

	if (image->read_only)
		return inode_is_open_for_write(inode);
	return atomic_read(&inode->i_writecount) != 1 ||
	       atomic_read(&inode->i_readcount);
}

/*
 * A delegation is a lease that is broken by more: every open breaks it, and so
 * does notify_change(), which overlayfs and nfsd call to truncate a file without
 * opening it. For a device that is written to it excludes every other opener; a
 * read-only device shares the image with other readers.
 *
 * It is refused while anyone holds the inode's lock, our own I/O included.
 */
static int take_open_lease(struct floop_image *image)
{
	int type = image->read_only ? F_RDLCK : F_WRLCK, tries, err;

	for (tries = 0; tries < LEASE_TRIES; tries++) {
		err = take_lease(image->file, type, FL_DELEG, image,
				 &open_lease_ops);
		if (err != -EAGAIN || is_opened(image))
			break;
		usleep_range(20, 200);
	}
	/*
	 * Who opens the image counts as an opener before it looks for leases
	 * (do_dentry_open()), and we look after ours is there to be found:
	 * generic_add_lease() has the barrier.
	 */
	if (!err && is_opened(image))
		err = -EAGAIN;
	return err;
}

/*
 * On xfs a reader may have the image's blocks exchanged for others with the same
 * content (FIDEDUPERANGE asks for no more than permission to write): that breaks
 * a layout lease first, and keeps the inode's lock from there on. Hence the order:
 * the other lease isn't granted under that lock.
 */
static enum floop_unmapped take_leases(struct floop_image *image)
{
	int err = 0;

	if (!floop_rule_holds(FLOOP_RULE_LEASE))
		return FLOOP_UNMAPPED_NOT;
	if (image->read_only && is_xfs(file_inode(image->file)) &&
	    floop_rule_holds(FLOOP_RULE_LAYOUT))
		err = take_lease(image->file, F_RDLCK, FL_LAYOUT, &image->guard,
				 &layout_lease_ops);
	if (!err)
		err = take_open_lease(image);
	switch (err) {
	case 0:
		return FLOOP_UNMAPPED_NOT;
	case -EAGAIN:
		return FLOOP_UNMAPPED_OPENED;
	default:
		return FLOOP_UNMAPPED_NO_LEASES;
	}
}

/* Is there something about the file now that only its file system can do? */
static bool is_special(struct floop_image *image)
{
	struct inode *inode = file_inode(image->file);
	struct floop_direct_rules rules;

	if (IS_DAX(inode) || IS_ENCRYPTED(inode) || IS_VERITY(inode) ||
	    IS_SWAPFILE(inode) || !inode->i_mapping->a_ops->bmap)
		return true;
	/* Not to be written to any more, even by who has it open. */
	if (!image->read_only && (IS_IMMUTABLE(inode) || IS_APPEND(inode)))
		return true;
	/* Among others, a file that ext4 journals the data of. */
	floop_direct_learn(image->file, &rules);
	return !rules.file_can || rules.align > image->rules.align ||
	       rules.mem_mask > image->rules.mem_mask;
}

/* With the lease: nothing of the image is in memory only, or to be believed. */
static enum floop_unmapped settle(struct floop_image *image)
{
	if (is_special(image))
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
	why_not = take_leases(image);
	if (why_not == FLOOP_UNMAPPED_NOT)
		why_not = settle(image);
	if (why_not == FLOOP_UNMAPPED_NOT) {
		begin_epoch(image);
	} else {
		give_leases_back(image);
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
	give_leases_back(image);
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
	give_leases_back(image);
	trace_floop_epoch_drain(image);

	spin_lock(&guard->lock);
	dio_held = guard->dio_held;
	guard->dio_held = false;
	guard->state = FLOOP_GUARD_WAITING;
	guard->why_not = FLOOP_UNMAPPED_OPENED;
	if (time_after(jiffies, guard->began + RETRY_LAST))
		guard->retry = RETRY_FIRST;
	if (dio_held)
		inode_dio_end(file_inode(image->file));
	retry_later(guard);
	spin_unlock(&guard->lock);
	floop_guard_touch(image);
	memalloc_noio_restore(memflags);
}

static void times_work(struct work_struct *work)
{
	struct floop_image *image = container_of(work, struct floop_image,
						 guard.times_work);
	struct super_block *sb = file_inode(image->file)->i_sb;
	unsigned int memflags;

	if (!READ_ONCE(image->guard.times_due))
		return;
	/* A frozen file system has to wait for the times, not we for it. */
	if (!sb_start_write_trylock(sb))
		return;
	memflags = memalloc_noio_save();
	WRITE_ONCE(image->guard.times_due, false);
	file_update_time(image->file);
	memalloc_noio_restore(memflags);
	sb_end_write(sb);
}

/**
 * floop_guard_touch() - have the times of the image brought up to date
 * @image: the image
 *
 * Context: Any.
 */
void floop_guard_touch(struct floop_image *image)
{
	if (!image->is_bdev && READ_ONCE(image->guard.times_due))
		queue_work(begin_wq, &image->guard.times_work);
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

/* Can it be mapped at all, as things stand? */
static enum floop_unmapped check(struct floop_image *image)
{
	struct block_device *disk = floop_image_disk(image);

	if (!image->direct)
		return FLOOP_UNMAPPED_BUFFERED;
	if (image->is_bdev)
		return bdev_is_zoned(disk) ? FLOOP_UNMAPPED_DISK :
					     FLOOP_UNMAPPED_NOT;
	if (!is_guarded(image->file) || !disk)
		return FLOOP_UNMAPPED_FILE_SYSTEM;
	if (!image->own_file)
		return FLOOP_UNMAPPED_OPENED;
	if (bdev_is_zoned(disk) || !IS_ENABLED(CONFIG_64BIT))
		return FLOOP_UNMAPPED_DISK;
	return is_special(image) ? FLOOP_UNMAPPED_FILE : FLOOP_UNMAPPED_NOT;
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

	why_not = wanted ? check(image) : FLOOP_UNMAPPED_OFF;
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
	give_leases_back(image);
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
	floop_guard_touch(image);
	flush_work(&guard->times_work);
}

/**
 * floop_guard_open() - open an image for the driver alone
 * @file: what userspace handed in
 * @read_only: the device is
 *
 * Context: Process context, as who attaches it. May sleep.
 * Return: a file of our own; ERR_PTR() where that makes no difference (it is none
 * that can be mapped), or can't be had.
 */
struct file *floop_guard_open(struct file *file, bool read_only)
{
	int flags = file->f_flags & (O_DIRECT | O_DSYNC | O_NOATIME);

	if (!is_guarded(file))
		return ERR_PTR(-EINVAL);
	flags |= O_LARGEFILE | (read_only ? O_RDONLY : O_RDWR);
	return dentry_open(&file->f_path, flags, current_cred());
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
	floop_map_init(&guard->map);
	spin_lock_init(&guard->lock);
	init_completion(&guard->drained);
	complete_all(&guard->drained);
	INIT_DELAYED_WORK(&guard->begin_work, begin_work);
	INIT_DELAYED_WORK(&guard->resume_work, resume_work);
	INIT_WORK(&guard->drain_work, drain_work);
	INIT_WORK(&guard->times_work, times_work);
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
	cancel_work_sync(&guard->times_work);
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
 * floop_guard_say() - put a reason in words
 * @why_not: the reason
 *
 * Return: the words that docs/command.md lists.
 */
const char *floop_guard_say(enum floop_unmapped why_not)
{
	static const char * const words[] = {
		[FLOOP_UNMAPPED_NOT]		= "mapped",
		[FLOOP_UNMAPPED_OFF]		= "turned off",
		[FLOOP_UNMAPPED_BUFFERED]	= "I/O to the image is not direct",
		[FLOOP_UNMAPPED_FILE_SYSTEM]	= "the image is not on ext4 or xfs",
		[FLOOP_UNMAPPED_FILE]		= "the file needs its file system for every I/O",
		[FLOOP_UNMAPPED_DISK]		= "the disk can't be mapped to",
		[FLOOP_UNMAPPED_OPENED]		= "someone else has the image open",
		[FLOOP_UNMAPPED_NO_LEASES]	= "the file system grants no lease",
		[FLOOP_UNMAPPED_CACHED]		= "the image's pages don't leave the page cache",
		[FLOOP_UNMAPPED_NO_MEMORY]	= "no memory for the map",
		[FLOOP_UNMAPPED_BEGINNING]	= "not yet",
		[FLOOP_UNMAPPED_CHANGING]	= "a discard changes the image",
	};

	return words[why_not];
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
