// SPDX-License-Identifier: GPL-2.0
/*
 * Lanes: lists of I/O, which lane each I/O belongs to, and the workqueues that
 * their workers run on. What a worker does is in worker.c.
 *
 * Each cgroup but the root has lanes of its own. The workqueue has a worker for
 * each of them, and for the few reads of each cgroup that may wait in work of
 * their own.
 *
 * A workqueue with a rescuer takes 30 KiB, and most devices are mapped before
 * they have done any I/O through the file system. So a device's workqueues are
 * allocated in the background when they are first needed. Until then, and
 * without memory, its work runs on two that all devices share. A shared rescuer
 * must not wait for another floop device, so a device that may lie on another
 * one has workqueues of its own from the attach on.
 */
#include <linux/blk-cgroup.h>
#include <linux/blkdev.h>
#include <linux/delay.h>
#include <linux/percpu.h>
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
 * lets work on a queue with a rescuer flush work on a queue without one: xfs
 * (xfs_flush_inodes()) and ext4 (its discard_work) do so on behalf of a writer
 * that runs out of space, and check_flush_dependency() would warn.
 */
#define LANE_WQ_FLAGS	(WQ_UNBOUND | WQ_MEM_RECLAIM | WQ_FREEZABLE | \
			 __WQ_LEGACY)
#define STALE_WQ_FLAGS	(WQ_UNBOUND | WQ_MEM_RECLAIM)

/*
 * Bound the passes of a worker: under memory pressure the rescuer is the only
 * worker, and has to serve other lanes, too.
 */
#define MAX_PASSES	256U

static struct workqueue_struct *shared_wq;
static struct workqueue_struct *shared_stale_wq;

/**
 * floop_lane_take() - take all I/O from a lane
 * @lane: the lane, in its worker
 *
 * Leaves the mark behind. While there is a worker, the list is never empty, so
 * adding to it doesn't wake a second worker.
 *
 * Context: Any.
 * Return: a list of struct floop_io, oldest first, or NULL.
 */
struct llist_node *floop_lane_take(struct floop_lane *lane)
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

/* Remove the mark: the worker is about to end. False if there is more to do. */
static bool lane_leave(struct floop_lane *lane)
{
	struct llist_node *mark = &lane->mark;

	return try_cmpxchg(&lane->ios.first, &mark, NULL);
}

/* Run @work on the workqueue @own, or on @shared until that is allocated. */
static void run_work(struct floop_lanes *lanes,
		     struct workqueue_struct *const *own,
		     struct workqueue_struct *shared, struct work_struct *work)
{
	/* Pairs with smp_store_release() in alloc_wqs(). */
	struct workqueue_struct *wq = smp_load_acquire(own);

	if (unlikely(!wq)) {
		if (time_after_eq(jiffies, READ_ONCE(lanes->wq_retry)))
			schedule_work(&lanes->wq_work);
		wq = shared;
	}
	queue_work(wq, work);
}

/**
 * floop_lane_stale() - drop pages that a mapped write has bypassed
 * @lanes: the device's lanes
 * @work: drops them
 *
 * Context: Any, interrupts included.
 */
void floop_lane_stale(struct floop_lanes *lanes, struct work_struct *work)
{
	run_work(lanes, &lanes->stale_wq, shared_stale_wq, work);
}

/**
 * floop_lanes_queue() - run work on the workqueue of the lanes
 * @lanes: the device's lanes
 * @work: the work
 *
 * Context: Any, interrupts included.
 */
void floop_lanes_queue(struct floop_lanes *lanes, struct work_struct *work)
{
	run_work(lanes, &lanes->wq, shared_wq, work);
}

static void lane_wake(struct floop_lane *lane)
{
	floop_lanes_queue(lane->lanes, &lane->work);
}

/**
 * floop_lane_run() - serve a lane until it is empty
 * @lane: the lane, in its worker; may be freed afterwards
 * @pass: called with all I/O in the lane, oldest first
 *
 * Between passes it yields to the tasks that the worker has just woken, which
 * are likely to add to the lane.
 *
 * Context: Process context. Sleeps if @pass does.
 */
void floop_lane_run(struct floop_lane *lane, floop_lane_pass_t *pass)
{
	struct llist_node *node;
	unsigned int passes = 0;

	do {
		if (passes++ == MAX_PASSES ||
		    (passes > 1 && floop_window_is_open(FLOOP_WINDOW_PASSES))) {
			lane_wake(lane);
			break;
		}
		node = floop_lane_take(lane);
		if (node)
			pass(lane, node);
		cond_resched();
	} while (!lane_leave(lane));
}

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
 * the css's id. A lane carries no identity and holds no reference: if another
 * cgroup gets the id, the lane serves that one.
 */
static struct floop_lane *lane_of_cgroup(struct floop_lanes *lanes,
					 struct cgroup_subsys_state *css,
					 unsigned int slot, bool create)
{
	unsigned long key = floop_css_id(css) * (nr_cpu_ids + 1UL) + slot;
	struct floop_lane *lane = xa_load(&lanes->cgroups, key);
	int err;

	if (lane || !create)
		return lane;
	lane = kzalloc(sizeof(*lane), GFP_NOWAIT | __GFP_NOWARN);
	if (!lane)
		return NULL;
	lane_init(lane, lanes, slot == nr_cpu_ids ? floop_worker_writer :
						    floop_worker_cpu);
	err = xa_insert(&lanes->cgroups, key, lane,
			GFP_NOWAIT | __GFP_NOWARN);
	if (err) {
		kfree(lane);
		return xa_load(&lanes->cgroups, key);
	}
	atomic_inc(&lanes->cgroup_lanes);
	/* One more lane needs one more worker. */
	schedule_work(&lanes->wq_work);
	/* Allocate the writer, too: it may be looked up in an interrupt. */
	if (slot != nr_cpu_ids)
		lane_of_cgroup(lanes, css, nr_cpu_ids, true);
	return lane;
}

/**
 * floop_lane_find() - find the lane that an I/O belongs to
 * @io: the I/O
 * @writer: the writer's lane, not a CPU's
 * @create: allocate the lane of a cgroup that has none yet
 *
 * Context: Any; interrupts included, without @create.
 * Return: the lane of the submitter's cgroup, or the root's if that has none.
 */
struct floop_lane *floop_lane_find(struct floop_io *io, bool writer,
				   bool create)
{
	struct cgroup_subsys_state *css = bio_blkcg_css(io->bio);
	struct floop_lanes *lanes = io->image->lanes;
	unsigned int cpu = raw_smp_processor_id();
	struct floop_lane *lane = NULL;

	if (unlikely(css && css != blkcg_root_css))
		lane = lane_of_cgroup(lanes, css, writer ? nr_cpu_ids : cpu,
				      create);
	if (lane)
		return lane;
	return writer ? &lanes->writer : per_cpu_ptr(lanes->cpus, cpu);
}

/**
 * floop_lane_add() - queue an I/O in a lane
 * @lane: the lane
 * @io: the I/O
 *
 * Context: Any, interrupts included.
 */
void floop_lane_add(struct floop_lane *lane, struct floop_io *io)
{
	if (llist_add(&io->node, &lane->ios))
		lane_wake(lane);
}

/*
 * I/O that a task submits under a plug is added to the lane when the plug ends,
 * and wakes one worker once. Only the task itself waits for it before that.
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
		floop_lane_add(lane, io);
		return;
	}
	plug = container_of(cb, struct lane_plug, cb);
	if (!plug->newest)
		plug->oldest = &io->node;
	io->node.next = plug->newest;
	plug->newest = &io->node;
}

/* Can a write be tried without waiting, in a CPU's lane? */
static bool write_may_try(struct floop_image *image)
{
	return image->direct && (image->nowait || image->is_bdev);
}

/**
 * floop_lane_route() - queue an I/O in the lane that it belongs to
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
		lane_add_plugged(floop_lane_find(io, true, true), io);
		return;
	}

	lane_add_plugged(floop_lane_find(io, false, true), io);
}

/**
 * floop_lanes_max_active() - the number of workers that a device may have
 *
 * Context: Any.
 * Return: the number, not counting workers of cgroups.
 */
int floop_lanes_max_active(void)
{
	return min_t(int, floop_queue_depth, WQ_MAX_ACTIVE);
}

/**
 * floop_lane_flush() - queue an I/O for the next flush
 * @io: a flush, or a write that has one before or after it
 *
 * Context: Any, interrupts included.
 */
void floop_lane_flush(struct floop_io *io)
{
	floop_lane_add(&io->image->lanes->flusher, io);
}

/* Allocate the missing workqueues, with a worker for each lane. */
static void alloc_wqs(struct floop_lanes *lanes)
{
	int cgroups = atomic_read(&lanes->cgroup_lanes);
	struct workqueue_struct *wq;

	if (!lanes->wq) {
		wq = alloc_workqueue("%s%d", LANE_WQ_FLAGS,
				     floop_lanes_max_active(), floop_names(),
				     lanes->number);
		/* Pairs with smp_load_acquire() in run_work(). */
		smp_store_release(&lanes->wq, wq);
	}
	if (!lanes->stale_wq) {
		wq = alloc_workqueue("%s%d_stale", STALE_WQ_FLAGS, 0,
				     floop_names(), lanes->number);
		/* Likewise. */
		smp_store_release(&lanes->stale_wq, wq);
	}
	WRITE_ONCE(lanes->wq_retry, jiffies + HZ);
	if (lanes->wq && cgroups)
		workqueue_set_max_active(lanes->wq,
					 min(floop_lanes_max_active() +
					     cgroups * (FLOOP_CGROUP_READS + 1),
					     WQ_MAX_ACTIVE));
}

/**
 * floop_lanes_alloc_wqs() - give a device workqueues of its own
 * @lanes: the device's
 *
 * Context: Process context. May sleep.
 * Return: 0 or -ENOMEM.
 */
int floop_lanes_alloc_wqs(struct floop_lanes *lanes)
{
	int err;

	mutex_lock(&lanes->wq_lock);
	alloc_wqs(lanes);
	err = lanes->wq && lanes->stale_wq ? 0 : -ENOMEM;
	mutex_unlock(&lanes->wq_lock);
	return err;
}

static void wq_work(struct work_struct *work)
{
	floop_lanes_alloc_wqs(container_of(work, struct floop_lanes, wq_work));
}

/**
 * floop_lanes_alloc() - allocate the lanes of a device
 * @number: the device's number, for the names of its workqueues
 *
 * Context: Process context. May sleep.
 * Return: the lanes, or ERR_PTR(-ENOMEM).
 */
struct floop_lanes *floop_lanes_alloc(int number)
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
	lanes->wq_retry = jiffies;
	for_each_possible_cpu(cpu)
		lane_init(per_cpu_ptr(lanes->cpus, cpu), lanes,
			  floop_worker_cpu);
	lane_init(&lanes->writer, lanes, floop_worker_writer);
	lane_init(&lanes->flusher, lanes, floop_worker_flusher);
	mutex_init(&lanes->wq_lock);
	INIT_WORK(&lanes->wq_work, wq_work);
	xa_init(&lanes->cgroups);
	return lanes;
}

/* Wait for the workers of a lane without I/O, which are about to end. */
static void lane_flush(struct floop_lane *lane)
{
	flush_work(&lane->work);
	/* Pairs with atomic_dec_return_release() in read_work(). */
	while (atomic_read_acquire(&lane->waiting))
		usleep_range(1000, 2000);
}

/**
 * floop_lanes_remove_cgroups() - free the lanes of cgroups
 * @lanes: the lanes, with no I/O in flight
 *
 * Context: Process context. May sleep.
 */
void floop_lanes_remove_cgroups(struct floop_lanes *lanes)
{
	struct floop_lane *lane;
	unsigned long key;
	int cpu;

	if (xa_empty(&lanes->cgroups))
		return;
	/* All workers first: a CPU's may hold a writer's @writing. */
	for_each_possible_cpu(cpu)
		lane_flush(per_cpu_ptr(lanes->cpus, cpu));
	xa_for_each(&lanes->cgroups, key, lane)
		lane_flush(lane);
	xa_for_each(&lanes->cgroups, key, lane) {
		xa_erase(&lanes->cgroups, key);
		kfree(lane);
	}
	atomic_set(&lanes->cgroup_lanes, 0);
}

/**
 * floop_lanes_free() - undo floop_lanes_alloc()
 * @lanes: the lanes, with no I/O in flight
 *
 * The last close of a device must not call it. It holds the disk's open_mutex,
 * and may not wait for workers that wait for a file system.
 *
 * Context: Process context. May sleep.
 */
void floop_lanes_free(struct floop_lanes *lanes)
{
	int cpu;

	for_each_possible_cpu(cpu)
		lane_flush(per_cpu_ptr(lanes->cpus, cpu));
	lane_flush(&lanes->writer);
	lane_flush(&lanes->flusher);
	floop_lanes_remove_cgroups(lanes);
	cancel_work_sync(&lanes->wq_work);
	if (lanes->stale_wq)
		destroy_workqueue(lanes->stale_wq);
	if (lanes->wq)
		destroy_workqueue(lanes->wq);
	xa_destroy(&lanes->cgroups);
	free_percpu(lanes->cpus);
	kfree(lanes);
}

/**
 * floop_lane_init() - allocate the workqueues that all devices share
 *
 * Context: Process context. May sleep.
 * Return: 0 or -ENOMEM.
 */
int floop_lane_init(void)
{
	shared_wq = alloc_workqueue("floop", LANE_WQ_FLAGS, WQ_MAX_ACTIVE);
	if (!shared_wq)
		return -ENOMEM;
	shared_stale_wq = alloc_workqueue("floop_stale", STALE_WQ_FLAGS, 0);
	if (!shared_stale_wq) {
		destroy_workqueue(shared_wq);
		return -ENOMEM;
	}
	return 0;
}

/**
 * floop_lane_exit() - undo floop_lane_init()
 *
 * Context: Process context. May sleep.
 */
void floop_lane_exit(void)
{
	destroy_workqueue(shared_stale_wq);
	destroy_workqueue(shared_wq);
}
