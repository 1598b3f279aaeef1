// SPDX-License-Identifier: GPL-2.0
/*
 * Lanes and the work that empties them.
 *
 * Who may wait where:
 *
 *  - A CPU's lane carries reads, and direct writes that the file system can
 *    refuse with -EAGAIN rather than block. A direct read waits in it for no
 *    more than room in the disk's queue. A buffered read waits for the disk:
 *    it does so in work of its own, for random reads gain by being many at
 *    once, or in the lane if it is the only one. A write that has to wait (it
 *    allocates, or time stamps are due) goes to the writer; or, if nobody is
 *    the writer right now, this lane is it for that one write.
 *  - The writer waits for what it must: writes that allocate, buffered writes,
 *    fallocate, a frozen file system. Most of these take the inode's lock
 *    exclusively, so more than one of them would only fight over it.
 *  - The flusher calls fsync once for all the flushes that wait for it.
 *
 * Each cgroup but the root has lanes and a writer of its own, so that a
 * throttled one doesn't hold up the others: the throttle may put a worker to
 * sleep as it submits to the disk. The workqueue has a worker for each of those
 * lanes, and for the few reads of each cgroup that may wait on their own.
 *
 * A workqueue with a rescuer takes 30 KiB, and most devices are mapped before
 * they have done any I/O through the file system. So a device's workqueues are
 * made when they are first needed, in the background; until then, and without
 * memory, its work runs on two that all devices share. A rescuer that is shared
 * must not wait for another device of ours: whoever may lie on one has
 * workqueues of its own from the attach on.
 */
#include <linux/blk-cgroup.h>
#include <linux/blkdev.h>
#include <linux/delay.h>
#include <linux/memcontrol.h>
#include <linux/percpu.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "compat.h"
#include "device.h"
#include "image.h"
#include "io.h"
#include "lane.h"
#include "names.h"
#include "rules.h"

/*
 * Memory may be short until we have written, so there is a rescuer. __WQ_LEGACY
 * is how a workqueue with one may flush work on another that has none: xfs
 * (xfs_flush_inodes()) and ext4 (its discard_work) do so on behalf of a writer
 * who runs out of space, and check_flush_dependency() would warn.
 */
#define LANE_WQ_FLAGS	(WQ_UNBOUND | WQ_MEM_RECLAIM | WQ_FREEZABLE | \
			 __WQ_LEGACY)
#define STALE_WQ_FLAGS	(WQ_UNBOUND | WQ_MEM_RECLAIM)

/* Buffered reads of a cgroup that wait in work of their own. */
#define CGROUP_WAITING	8

static struct workqueue_struct *shared_wq;
static struct workqueue_struct *shared_stale_wq;

/* What a worker takes on while it acts for the submitter of a bio. */
struct identity {
	struct cgroup_subsys_state *memcg;
	struct mem_cgroup *old_memcg;
	bool changed;
};

static void identity_take(struct identity *id, struct bio *bio)
{
	struct cgroup_subsys_state *blkcg = bio_blkcg_css(bio);

	id->changed = blkcg && blkcg != blkcg_root_css;
	if (likely(!id->changed))
		return;
	kthread_associate_blkcg(blkcg);
#ifdef CONFIG_MEMCG
	id->memcg = cgroup_get_e_css(blkcg->cgroup, &memory_cgrp_subsys);
	id->old_memcg = set_active_memcg(mem_cgroup_from_css(id->memcg));
#endif
}

static void identity_drop(struct identity *id)
{
	if (likely(!id->changed))
		return;
	kthread_associate_blkcg(NULL);
#ifdef CONFIG_MEMCG
	set_active_memcg(id->old_memcg);
	css_put(id->memcg);
#endif
}

/*
 * Memory that the file system needs for our I/O can't come from writing to us.
 * Nor may a buffered write (direct I/O may fall back to one) be throttled for
 * the dirty pages of the file system above: we are how those are written back.
 */
static unsigned int reclaim_scope_enter(void)
{
	unsigned int old = current->flags;

	current->flags |= PF_MEMALLOC_NOIO | PF_LOCAL_THROTTLE;
	return old;
}

static void reclaim_scope_leave(unsigned int old)
{
	current_restore_flags(old, PF_MEMALLOC_NOIO | PF_LOCAL_THROTTLE);
}

/*
 * Take all that is in a lane, oldest first. The mark stays behind: while there is
 * a worker, the list isn't empty for those who add to it, so they don't wake
 * another worker, who would find that he has to leave it to this one.
 */
static struct llist_node *lane_take(struct floop_lane *lane)
{
	struct llist_node *node = xchg(&lane->ios.first, &lane->mark);
	struct llist_node *oldest = NULL, *next;

	for (; node && node != &lane->mark; node = next) {
		next = node->next;
		node->next = oldest;
		oldest = node;
	}
	return oldest;
}

/* Take the mark away, and with it the worker; false if there is more to do. */
static bool lane_leave(struct floop_lane *lane)
{
	struct llist_node *mark = &lane->mark;

	return try_cmpxchg(&lane->ios.first, &mark, NULL);
}

/* Has something come since lane_take()? */
static bool lane_has_more(struct floop_lane *lane)
{
	return READ_ONCE(lane->ios.first) != &lane->mark;
}

/* Run @work on the workqueue @own, once that is there. */
static void run_work(struct floop_lanes *lanes,
		     struct workqueue_struct *const *own,
		     struct workqueue_struct *shared, struct work_struct *work)
{
	/* Pairs with smp_store_release() in make_workqueues(). */
	struct workqueue_struct *wq = smp_load_acquire(own);

	if (unlikely(!wq)) {
		if (time_after_eq(jiffies, READ_ONCE(lanes->make_again)))
			schedule_work(&lanes->make_work);
		wq = shared;
	}
	queue_work(wq, work);
}

static void lane_wake(struct floop_lane *lane)
{
	struct floop_lanes *lanes = lane->lanes;

	run_work(lanes, &lanes->wq, shared_wq, &lane->work);
}

/**
 * floop_lane_stale() - have a mapped write drop pages
 * @lanes: the device's lanes
 * @work: does it
 *
 * Context: Any, interrupts included.
 */
void floop_lane_stale(struct floop_lanes *lanes, struct work_struct *work)
{
	run_work(lanes, &lanes->stale_wq, shared_stale_wq, work);
}

/* So often, before others' work gets the worker: there may be one, the rescuer. */
#define MOST_PASSES	256U

/*
 * A worker empties a lane, until it is empty: after those have run that it has
 * just woken, if they are to run first. They are likely to add to it.
 */
static void lane_run(struct floop_lane *lane,
		     void (*pass)(struct floop_lane *lane,
				  struct llist_node *node))
{
	unsigned int old = reclaim_scope_enter();
	struct llist_node *node;
	unsigned int passes = 0;

	do {
		if (passes++ == MOST_PASSES ||
		    (passes > 1 && floop_window_is_open(FLOOP_WINDOW_PASSES))) {
			lane_wake(lane);
			break;
		}
		node = lane_take(lane);
		if (node)
			pass(lane, node);
		cond_resched();
	} while (!lane_leave(lane));
	reclaim_scope_leave(old);
}

/* However many writes in a row had to wait, try again after so many. */
#define MOST_SPARED	64U

/*
 * Handle one I/O; only with @wait may it block. Returns false if it has to, and
 * nothing is done yet.
 */
static bool handle(struct floop_lane *lane, struct floop_io *io, bool wait,
		   struct bio_list *batch)
{
	struct identity id;
	bool handled = true;

	identity_take(&id, io->bio);
	lane->serving = io->image;
	switch (bio_op(io->bio)) {
	case REQ_OP_READ:
	case REQ_OP_WRITE:
		handled = floop_rw(io, wait, batch);
		break;
	default:
		floop_discard(io);
	}
	lane->serving = NULL;
	identity_drop(&id);
	return handled;
}

static void cpu_lane_work(struct work_struct *work);
static void writer_work(struct work_struct *work);

static void lane_init(struct floop_lane *lane, struct floop_lanes *lanes,
		      work_func_t fn)
{
	init_llist_head(&lane->ios);
	lane->mark.next = NULL;
	INIT_WORK(&lane->work, fn);
	mutex_init(&lane->writing);
	lane->lanes = lanes;
}

/*
 * The lane of a cgroup, for CPU @slot or, at nr_cpu_ids, its writer. The key is
 * the css's id: a lane carries no identity, so if the id comes back with
 * another cgroup it serves that one just as well, and holds no reference.
 */
static struct floop_lane *cgroup_lane(struct floop_lanes *lanes,
				      struct cgroup_subsys_state *css,
				      unsigned int slot, bool make)
{
	unsigned long key = floop_css_id(css) * (nr_cpu_ids + 1UL) + slot;
	struct floop_lane *lane = xa_load(&lanes->cgroups, key);
	int err;

	if (lane || !make)
		return lane;
	lane = kzalloc(sizeof(*lane), GFP_NOWAIT | __GFP_NOWARN);
	if (!lane)
		return NULL;
	lane_init(lane, lanes, slot == nr_cpu_ids ? writer_work : cpu_lane_work);
	err = xa_insert(&lanes->cgroups, key, lane,
			GFP_NOWAIT | __GFP_NOWARN);
	if (err) {
		kfree(lane);
		return xa_load(&lanes->cgroups, key);
	}
	atomic_inc(&lanes->cgroup_lanes);
	/* It wants a worker. */
	schedule_work(&lanes->make_work);
	/* Who has to wait finds its writer: it may be in an interrupt then. */
	if (slot != nr_cpu_ids)
		cgroup_lane(lanes, css, nr_cpu_ids, true);
	return lane;
}

static struct floop_lane *lane_of(struct floop_io *io, bool writer, bool make)
{
	struct cgroup_subsys_state *css = bio_blkcg_css(io->bio);
	struct floop_lanes *lanes = io->image->lanes;
	unsigned int cpu = raw_smp_processor_id();
	struct floop_lane *lane = NULL;

	if (unlikely(css && css != blkcg_root_css))
		lane = cgroup_lane(lanes, css, writer ? nr_cpu_ids : cpu, make);
	if (lane)
		return lane;
	return writer ? &lanes->writer : per_cpu_ptr(lanes->cpus, cpu);
}

/* May a CPU's lane wait for this I/O, with @more behind it? */
static bool lane_may_wait(struct floop_io *io, bool more)
{
	struct floop_image *image = io->image;

	if (image->direct)
		return bio_op(io->bio) == REQ_OP_READ || image->is_bdev;
	return !more && !atomic_read(&lane_of(io, true, false)->waiting);
}

/* Handle a direct write, in a CPU's lane. */
static void lane_write(struct floop_lane *lane, struct floop_io *io,
		       struct bio_list *batch)
{
	struct floop_lane *writer;

	if (lane->spare) {
		lane->spare--;
	} else {
		if (handle(lane, io, false, batch)) {
			lane->backoff = 0;
			return;
		}
		lane->spare = lane->backoff;
		lane->backoff = clamp(lane->backoff * 2, 1U, MOST_SPARED);
	}

	writer = lane_of(io, true, true);
	if (!mutex_trylock(&writer->writing)) {
		floop_lane_wait(io);
		return;
	}
	floop_io_end_batch(batch);
	handle(lane, io, true, batch);
	mutex_unlock(&writer->writing);
}

/*
 * Handle what is no direct write to a file, in a CPU's lane. What is done
 * already doesn't wait for a buffered read: that is tried first, for in most
 * cases it doesn't wait either, and then all can be completed together.
 */
static void lane_read(struct floop_lane *lane, struct floop_io *io, bool wait,
		      struct bio_list *batch)
{
	struct floop_image *image = io->image;
	bool try = !wait || (!image->direct && !bio_list_empty(batch));

	if (try && image->nowait && handle(lane, io, false, batch))
		return;
	if (!wait) {
		floop_lane_wait(io);
		return;
	}
	if (!image->direct)
		floop_io_end_batch(batch);
	handle(lane, io, true, batch);
}

/*
 * Empty a CPU's lane, under a plug, so that the disk sees what belongs together.
 * What is done at once (in the page cache, in a hole, by a disk of memory) is
 * completed together, but not later than what makes us wait.
 */
static void cpu_lane_pass(struct floop_lane *lane, struct llist_node *node)
{
	struct bio_list batch = BIO_EMPTY_LIST;
	struct blk_plug plug;

	blk_start_plug(&plug);
	while (node) {
		struct floop_io *io = llist_entry(node, struct floop_io, node);
		bool wait;

		node = node->next;
		io = floop_merge(io, &node);
		wait = lane_may_wait(io, node || lane_has_more(lane));
		if (need_resched())
			floop_io_end_batch(&batch);
		if (bio_op(io->bio) == REQ_OP_WRITE && !wait)
			lane_write(lane, io, &batch);
		else
			lane_read(lane, io, wait, &batch);
		cond_resched();
	}
	blk_finish_plug(&plug);
	floop_io_end_batch(&batch);
}

static void cpu_lane_work(struct work_struct *work)
{
	lane_run(container_of(work, struct floop_lane, work), cpu_lane_pass);
}

/* Can it be that a buffered write doesn't wait, and does the file system know? */
static bool writer_may_try(struct floop_io *io)
{
	struct floop_image *image = io->image;

	return bio_op(io->bio) == REQ_OP_WRITE && !image->direct &&
	       image->nowait &&
	       (image->file->f_op->fop_flags & FOP_BUFFER_WASYNC);
}

/*
 * The writer may wait for anything, but what is done already doesn't wait with
 * it: as in a CPU's lane, what doesn't wait is completed together.
 */
static void writer_pass(struct floop_lane *lane, struct llist_node *node)
{
	struct bio_list batch = BIO_EMPTY_LIST;
	struct blk_plug plug;

	mutex_lock(&lane->writing);
	blk_start_plug(&plug);
	while (node) {
		struct floop_io *io = llist_entry(node, struct floop_io, node);
		bool try;

		node = node->next;
		io = floop_merge(io, &node);
		try = !bio_list_empty(&batch) && writer_may_try(io);
		if (!try || !handle(lane, io, false, &batch)) {
			floop_io_end_batch(&batch);
			handle(lane, io, true, &batch);
		}
		if (need_resched())
			floop_io_end_batch(&batch);
		cond_resched();
	}
	blk_finish_plug(&plug);
	mutex_unlock(&lane->writing);
	floop_io_end_batch(&batch);
}

static void writer_work(struct work_struct *work)
{
	lane_run(container_of(work, struct floop_lane, work), writer_pass);
}

/* A read that has to wait does so on its own. */
static void read_work(struct work_struct *work)
{
	struct floop_io *io = container_of(work, struct floop_io, work);
	struct floop_lane *writer = io->writer;
	unsigned int old = reclaim_scope_enter();
	struct identity id;

	identity_take(&id, io->bio);
	floop_rw(io, true, NULL);
	identity_drop(&id);
	reclaim_scope_leave(old);
	/* Last: let_reads_go() waits for it. */
	atomic_dec_return_release(&writer->waiting);
}

static void flusher_pass(struct floop_lane *lane, struct llist_node *node)
{
	int err = floop_flush(node);

	/*
	 * A file system tells a descriptor of lost data once. Who waits by now may
	 * have lost it, too: a flush of his own would say that it is durable.
	 */
	node = err ? lane_take(lane) : NULL;
	if (node)
		floop_flush_fail(node, err);
}

static void flusher_work(struct work_struct *work)
{
	lane_run(container_of(work, struct floop_lane, work), flusher_pass);
}

static void lane_add(struct floop_lane *lane, struct floop_io *io)
{
	if (llist_add(&io->node, &lane->ios))
		lane_wake(lane);
}

/*
 * What a task submits under a plug reaches the lane at once, and wakes one
 * worker once. Until then only the task itself waits for it.
 */
struct lane_plug {
	struct blk_plug_cb cb;
	struct llist_node *newest;
	struct llist_node *oldest;
};

static void lane_unplug(struct blk_plug_cb *cb, bool from_schedule)
{
	struct lane_plug *plug = container_of(cb, struct lane_plug, cb);
	struct floop_lane *lane = cb->data;

	if (llist_add_batch(plug->newest, plug->oldest, &lane->ios))
		lane_wake(lane);
	kfree(plug);
}

static void lane_add_plugged(struct floop_lane *lane, struct floop_io *io)
{
	struct blk_plug_cb *cb = blk_check_plugged(lane_unplug, lane,
						   sizeof(struct lane_plug));
	struct lane_plug *plug;

	if (!cb) {
		lane_add(lane, io);
		return;
	}
	plug = container_of(cb, struct lane_plug, cb);
	if (!plug->newest)
		plug->oldest = &io->node;
	io->node.next = plug->newest;
	plug->newest = &io->node;
}

/* Does a write go to a CPU's lane, to be tried without waiting? */
static bool write_may_try(struct floop_image *image)
{
	return image->direct && (image->nowait || image->is_bdev);
}

/**
 * floop_lane_route() - queue an I/O where it belongs
 * @io: new, or with the flush ahead of it done
 *
 * Context: Process context. Doesn't sleep.
 */
void floop_lane_route(struct floop_io *io)
{
	struct bio *bio = io->bio;

	if ((bio->bi_opf & REQ_PREFLUSH) && !(io->flags & FLOOP_IO_FLUSHED)) {
		floop_lane_flush(io);
		return;
	}
	if (bio_op(bio) != REQ_OP_READ &&
	    (bio_op(bio) != REQ_OP_WRITE || !write_may_try(io->image))) {
		lane_add_plugged(lane_of(io, true, true), io);
		return;
	}

	lane_add_plugged(lane_of(io, false, true), io);
}

/* How many workers a device may have, but for those of cgroups. */
static int most_active(void)
{
	return min_t(int, floop_queue_depth, WQ_MAX_ACTIVE);
}

/**
 * floop_lane_wait() - queue an I/O, or the rest of one, where it may wait
 * @io: a read, or a write
 *
 * Context: Any, interrupts included.
 */
void floop_lane_wait(struct floop_io *io)
{
	struct floop_lanes *lanes = io->image->lanes;
	struct floop_lane *writer = lane_of(io, true, false);

	if (bio_op(io->bio) == REQ_OP_READ) {
		int most = max(most_active() / 2, 1);

		if (writer != &lanes->writer)
			most = min(most, CGROUP_WAITING);
		if (atomic_inc_return(&writer->waiting) <= most) {
			io->writer = writer;
			INIT_WORK(&io->work, read_work);
			run_work(lanes, &lanes->wq, shared_wq, &io->work);
			return;
		}
		/* Enough of them: the others leave the workqueue some room. */
		atomic_dec(&writer->waiting);
	}
	lane_add(writer, io);
}

/**
 * floop_lane_flush() - queue an I/O for the next flush
 * @io: a flush, or a write that has one before or after it
 *
 * Context: Any, interrupts included.
 */
void floop_lane_flush(struct floop_io *io)
{
	lane_add(&io->image->lanes->flusher, io);
}

/**
 * floop_lane_serves() - is it a worker of ours that changes this image?
 * @image: the image
 *
 * Context: Any.
 * Return: true in the context of a lane's worker, while it calls the image's
 * file system to write to the image or to change it.
 */
bool floop_lane_serves(const struct floop_image *image)
{
	struct work_struct *work = current_work();

	if (!work ||
	    (work->func != cpu_lane_work && work->func != writer_work))
		return false;
	return container_of(work, struct floop_lane, work)->serving == image;
}

/* Make what isn't there yet, with a worker for each lane. */
static void make_workqueues(struct floop_lanes *lanes)
{
	int cgroups = atomic_read(&lanes->cgroup_lanes);
	struct workqueue_struct *wq;

	if (!lanes->wq) {
		wq = alloc_workqueue(FLOOP_NAME "%d", LANE_WQ_FLAGS,
				     most_active(), lanes->number);
		/* Pairs with smp_load_acquire() in run_work(). */
		smp_store_release(&lanes->wq, wq);
	}
	if (!lanes->stale_wq) {
		wq = alloc_workqueue(FLOOP_NAME "%d_stale", STALE_WQ_FLAGS, 0,
				     lanes->number);
		/* The same. */
		smp_store_release(&lanes->stale_wq, wq);
	}
	WRITE_ONCE(lanes->make_again, jiffies + HZ);
	if (lanes->wq && cgroups)
		workqueue_set_max_active(lanes->wq,
					 min(most_active() +
					     cgroups * (CGROUP_WAITING + 1),
					     WQ_MAX_ACTIVE));
}

/**
 * floop_lanes_complete() - have a device share no workqueue with another
 * @lanes: the device's
 *
 * Context: Process context. May sleep.
 * Return: 0 or -ENOMEM.
 */
int floop_lanes_complete(struct floop_lanes *lanes)
{
	int err;

	mutex_lock(&lanes->make_lock);
	make_workqueues(lanes);
	err = lanes->wq && lanes->stale_wq ? 0 : -ENOMEM;
	mutex_unlock(&lanes->make_lock);
	return err;
}

static void make_work(struct work_struct *work)
{
	floop_lanes_complete(container_of(work, struct floop_lanes, make_work));
}

/**
 * floop_lanes_make() - make the lanes of a device
 * @number: the device's number, for the names of its workqueues
 *
 * Context: Process context. May sleep.
 * Return: the lanes, or ERR_PTR(-ENOMEM).
 */
struct floop_lanes *floop_lanes_make(int number)
{
	struct floop_lanes *lanes;
	int cpu;

	lanes = kzalloc(sizeof(*lanes), GFP_KERNEL);
	if (!lanes)
		return ERR_PTR(-ENOMEM);
	lanes->cpus = alloc_percpu(struct floop_lane);
	if (!lanes->cpus) {
		kfree(lanes);
		return ERR_PTR(-ENOMEM);
	}
	lanes->number = number;
	lanes->make_again = jiffies;
	for_each_possible_cpu(cpu)
		lane_init(per_cpu_ptr(lanes->cpus, cpu), lanes, cpu_lane_work);
	lane_init(&lanes->writer, lanes, writer_work);
	lane_init(&lanes->flusher, lanes, flusher_work);
	mutex_init(&lanes->make_lock);
	INIT_WORK(&lanes->make_work, make_work);
	xa_init(&lanes->cgroups);
	return lanes;
}

/* Workers of a lane without I/O are on their way out. */
static void let_go(struct floop_lane *lane)
{
	flush_work(&lane->work);
	/* Pairs with atomic_dec_return_release() in read_work(). */
	while (atomic_read_acquire(&lane->waiting))
		usleep_range(1000, 2000);
}

/**
 * floop_lanes_tidy() - take the lanes of cgroups away
 * @lanes: the lanes, with no I/O in flight
 *
 * Context: Process context. May sleep.
 */
void floop_lanes_tidy(struct floop_lanes *lanes)
{
	struct floop_lane *lane;
	unsigned long key;
	int cpu;

	if (xa_empty(&lanes->cgroups))
		return;
	/* First all workers: that of any CPU's lane may hold a writer's @writing. */
	for_each_possible_cpu(cpu)
		let_go(per_cpu_ptr(lanes->cpus, cpu));
	xa_for_each(&lanes->cgroups, key, lane)
		let_go(lane);
	xa_for_each(&lanes->cgroups, key, lane) {
		xa_erase(&lanes->cgroups, key);
		kfree(lane);
	}
	atomic_set(&lanes->cgroup_lanes, 0);
}

/**
 * floop_lanes_free() - undo floop_lanes_make()
 * @lanes: the lanes, with no I/O in flight
 *
 * Not for the last close of a device: that holds the disk's open_mutex, and to
 * wait for workers, who wait for a file system, is more than it may do.
 *
 * Context: Process context. May sleep.
 */
void floop_lanes_free(struct floop_lanes *lanes)
{
	int cpu;

	for_each_possible_cpu(cpu)
		let_go(per_cpu_ptr(lanes->cpus, cpu));
	let_go(&lanes->writer);
	let_go(&lanes->flusher);
	floop_lanes_tidy(lanes);
	cancel_work_sync(&lanes->make_work);
	if (lanes->stale_wq)
		destroy_workqueue(lanes->stale_wq);
	if (lanes->wq)
		destroy_workqueue(lanes->wq);
	xa_destroy(&lanes->cgroups);
	free_percpu(lanes->cpus);
	kfree(lanes);
}

/**
 * floop_lane_init() - set up what all devices share
 *
 * Return: 0 or -ENOMEM.
 */
int floop_lane_init(void)
{
	shared_wq = alloc_workqueue(FLOOP_NAME, LANE_WQ_FLAGS, WQ_MAX_ACTIVE);
	if (!shared_wq)
		return -ENOMEM;
	shared_stale_wq = alloc_workqueue(FLOOP_NAME "_stale", STALE_WQ_FLAGS,
					  0);
	if (!shared_stale_wq) {
		destroy_workqueue(shared_wq);
		return -ENOMEM;
	}
	return 0;
}

/**
 * floop_lane_exit() - undo floop_lane_init()
 */
void floop_lane_exit(void)
{
	destroy_workqueue(shared_stale_wq);
	destroy_workqueue(shared_wq);
}
