// SPDX-License-Identifier: GPL-2.0
/*
 * The workers of the lanes: they call the file system, and decide which I/O may
 * wait for it, and where.
 *
 *  - A CPU's worker serves reads, and direct writes that the file system can
 *    refuse with -EAGAIN rather than block. A direct read waits in it for no
 *    more than room in the disk's queue. A buffered read waits for the disk, in
 *    work of its own, for random reads gain by concurrency, or in the lane if
 *    it is the only one. A write that has to wait (it allocates, or time stamps
 *    are due) goes to the writer; if there is no writer right now, the CPU's
 *    worker is the writer for that one write.
 *  - The writer may wait: for writes that allocate, buffered writes, fallocate,
 *    a frozen file system. Most of these take the inode's lock exclusively, so
 *    more workers would only contend for it.
 *  - The flusher calls fsync once for all the flushes that wait for it.
 *
 * Each cgroup but the root has lanes and a writer of its own, so that a
 * throttled one doesn't hold up the others: the throttle may put a worker to
 * sleep as it submits to the disk.
 */
#include <linux/blk-cgroup.h>
#include <linux/blkdev.h>
#include <linux/memcontrol.h>
#include <linux/sched/mm.h>

#include "image.h"
#include "io.h"
#include "lane.h"

/* The most NOWAIT attempts to skip in a row. */
#define MAX_SKIPPED	64U

/* The submitter's cgroups, which a worker assumes while it serves a bio. */
struct identity {
	struct cgroup_subsys_state *memcg;
	struct mem_cgroup *old_memcg;
	bool changed;
};

static void identity_assume(struct identity *id, struct bio *bio)
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
 * Memory that the file system needs for our I/O can't come from writing to the
 * device. Nor may a buffered write (direct I/O may fall back to one) be
 * throttled for dirty pages of the file system above, which are written back
 * through the device.
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

static void worker_run(struct work_struct *work, floop_lane_pass_t *pass)
{
	unsigned int old = reclaim_scope_enter();

	floop_lane_run(container_of(work, struct floop_lane, work), pass);
	reclaim_scope_leave(old);
}

/* Serve one I/O in its submitter's cgroups; block only with @wait. */
static enum floop_rw_result worker_serve(struct floop_lane *lane,
					 struct floop_io *io, bool wait,
					 struct bio_list *batch)
{
	enum floop_rw_result result = FLOOP_RW_DONE;
	struct identity id;

	identity_assume(&id, io->bio);
	lane->serving = io->image;
	switch (bio_op(io->bio)) {
	case REQ_OP_READ:
	case REQ_OP_WRITE:
		result = floop_rw(io, wait, batch);
		break;
	default:
		floop_discard(io);
	}
	lane->serving = NULL;
	identity_drop(&id);
	return result;
}

/*
 * Serve one I/O without blocking, or queue it if only the writer may serve it.
 * Returns false if it has to wait, and nothing is done yet.
 */
static bool worker_try(struct floop_lane *lane, struct floop_io *io,
		       struct bio_list *batch)
{
	switch (worker_serve(lane, io, false, batch)) {
	case FLOOP_RW_DONE:
		return true;
	case FLOOP_RW_WRITER_ONLY:
		floop_worker_requeue(io);
		return true;
	case FLOOP_RW_WOULD_WAIT:
		break;
	}
	return false;
}

/* May a CPU's worker wait for this I/O, with @more behind it? */
static bool cpu_may_wait(struct floop_io *io, bool more)
{
	struct floop_image *image = io->image;

	if (image->direct)
		return bio_op(io->bio) == REQ_OP_READ || image->is_bdev;
	return !more &&
	       !atomic_read(&floop_lane_find(io, true, false)->waiting);
}

/* Serve a direct write, in a CPU's lane. */
static void cpu_write(struct floop_lane *lane, struct floop_io *io,
		      struct bio_list *batch)
{
	struct floop_lane *writer;

	if (lane->skip) {
		lane->skip--;
	} else {
		if (worker_try(lane, io, batch)) {
			lane->backoff = 0;
			return;
		}
		lane->skip = lane->backoff;
		lane->backoff = clamp(lane->backoff * 2, 1U, MAX_SKIPPED);
	}

	writer = floop_lane_find(io, true, true);
	if (!mutex_trylock(&writer->writing)) {
		floop_worker_requeue(io);
		return;
	}
	floop_io_end_batch(batch);
	worker_serve(lane, floop_ahead(io), true, batch);
	mutex_unlock(&writer->writing);
}

/*
 * Serve anything but a direct write to a file, in a CPU's lane. I/O that is
 * done already doesn't wait for a buffered read: try the read without waiting
 * first. It mostly succeeds, and then all I/O is completed together.
 */
static void cpu_read(struct floop_lane *lane, struct floop_io *io, bool wait,
		     struct bio_list *batch)
{
	struct floop_image *image = io->image;
	bool try = !wait || (!image->direct && !bio_list_empty(batch));

	if (try && image->nowait && worker_try(lane, io, batch))
		return;
	if (!wait) {
		floop_worker_requeue(io);
		return;
	}
	/* Nor for calls that are parked */
	if (!image->direct || READ_ONCE(image->calls.parked))
		floop_io_end_batch(batch);
	worker_serve(lane, io, true, batch);
}

/*
 * Empty a CPU's lane under a plug, so that the disk can merge its I/O. I/O that
 * is done at once (in the page cache, in a hole, by a RAM disk) is completed
 * together, before the worker waits for anything.
 */
static void cpu_pass(struct floop_lane *lane, struct llist_node *node)
{
	struct bio_list batch = BIO_EMPTY_LIST;
	struct blk_plug plug;

	blk_start_plug(&plug);
	while (node) {
		struct floop_io *io = llist_entry(node, struct floop_io, node);
		bool wait;

		node = node->next;
		io = floop_merge(io, &node);
		wait = cpu_may_wait(io, node || floop_lane_has_more(lane));
		if (need_resched())
			floop_io_end_batch(&batch);
		if (bio_op(io->bio) == REQ_OP_WRITE && !wait)
			cpu_write(lane, io, &batch);
		else
			cpu_read(lane, io, wait, &batch);
		cond_resched();
	}
	blk_finish_plug(&plug);
	floop_io_end_batch(&batch);
}

/**
 * floop_worker_cpu() - empty a CPU's lane
 * @work: the lane's
 *
 * Context: Process context. Sleeps.
 */
void floop_worker_cpu(struct work_struct *work)
{
	worker_run(work, cpu_pass);
}

/* Can the file system say that a buffered write would wait? */
static bool writer_may_try(struct floop_io *io)
{
	struct floop_image *image = io->image;

	return bio_op(io->bio) == REQ_OP_WRITE && !image->direct &&
	       image->nowait &&
	       (image->file->f_op->fop_flags & FOP_BUFFER_WASYNC);
}

/*
 * The writer may wait for anything, but I/O that is done already doesn't wait
 * with it: as in a CPU's lane, it is completed together.
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
		if (!try || !worker_try(lane, io, &batch)) {
			floop_io_end_batch(&batch);
			worker_serve(lane, floop_ahead(io), true, &batch);
		}
		if (need_resched())
			floop_io_end_batch(&batch);
		cond_resched();
	}
	blk_finish_plug(&plug);
	mutex_unlock(&lane->writing);
	floop_io_end_batch(&batch);
}

/**
 * floop_worker_writer() - empty a writer's lane
 * @work: the lane's
 *
 * Context: Process context. Sleeps, for as long as the file system is frozen.
 */
void floop_worker_writer(struct work_struct *work)
{
	worker_run(work, writer_pass);
}

static void flusher_pass(struct floop_lane *lane, struct llist_node *node)
{
	int err = floop_flush(node);

	/*
	 * A file system reports lost data to a descriptor once. Flushes that
	 * have come meanwhile may cover the lost data, too, but their own fsync
	 * would succeed.
	 */
	node = err ? floop_lane_take(lane) : NULL;
	if (node)
		floop_flush_fail(node, err);
}

/**
 * floop_worker_flusher() - empty the lane of flushes
 * @work: the lane's
 *
 * Context: Process context. Sleeps.
 */
void floop_worker_flusher(struct work_struct *work)
{
	worker_run(work, flusher_pass);
}

/* Serve a buffered read that has to wait, in work of its own. */
static void read_work(struct work_struct *work)
{
	struct floop_io *io = container_of(work, struct floop_io, work);
	struct floop_lane *writer = io->writer;
	unsigned int old = reclaim_scope_enter();
	struct identity id;

	identity_assume(&id, io->bio);
	floop_rw(io, true, NULL);
	identity_drop(&id);
	reclaim_scope_leave(old);
	/* Last: lane_flush() waits for it. */
	atomic_dec_return_release(&writer->waiting);
}

/* Queue a read as work of its own, unless enough reads of its cgroup are. */
static bool queue_read(struct floop_lane *writer, struct floop_io *io)
{
	struct floop_lanes *lanes = writer->lanes;
	int most = max(floop_lanes_max_active() / 2, 1);

	if (writer != &lanes->writer)
		most = min(most, FLOOP_CGROUP_READS);
	if (atomic_inc_return(&writer->waiting) > most) {
		/* Leave room on the workqueue: the read waits in the lane. */
		atomic_dec(&writer->waiting);
		return false;
	}
	io->writer = writer;
	INIT_WORK(&io->work, read_work);
	floop_lanes_queue(lanes, &io->work);
	return true;
}

/**
 * floop_worker_requeue() - queue an I/O, or the rest of one, where it may wait
 * @io: a read, or a write
 *
 * Context: Any, interrupts included.
 */
void floop_worker_requeue(struct floop_io *io)
{
	struct floop_lane *writer = floop_lane_find(io, true, false);

	if (bio_op(io->bio) != REQ_OP_READ || !queue_read(writer, io))
		floop_lane_add(writer, io);
}

/**
 * floop_worker_serves() - is the current task a worker that serves an image?
 * @image: the image
 *
 * Context: Any.
 * Return: true in the context of a lane's worker, while it calls the image's
 * file system to write to the image or to change it.
 */
bool floop_worker_serves(const struct floop_image *image)
{
	struct work_struct *work = current_work();

	if (!work || (work->func != floop_worker_cpu &&
		      work->func != floop_worker_writer))
		return false;
	return container_of(work, struct floop_lane, work)->serving == image;
}
