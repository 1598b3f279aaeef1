/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Lanes carry I/O from its submitter to a worker that may call the file system.
 * Each CPU has a lane, so that submitters share nothing. The writer's lane is
 * for I/O that waits for locks of the file system, which more workers would
 * only contend for. The flusher's lane is for flushes: one call serves all that
 * wait.
 */
#ifndef FLOOP_LANE_H
#define FLOOP_LANE_H

#include <linux/atomic.h>
#include <linux/cache.h>
#include <linux/llist.h>
#include <linux/mutex.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

struct floop_image;
struct floop_io;

/* Buffered reads of a cgroup that may wait in work of their own. */
#define FLOOP_CGROUP_READS	8

/**
 * struct floop_lane - a queue of I/O and the work that serves it
 * @ios: a list of struct floop_io, newest first, with @mark at its end while
 *	there is a worker
 * @mark: stands for the worker
 * @work: the worker; runs while there is something in @ios
 * @lanes: the device's lanes
 * @writing: of a writer's lane: held by the worker that is the writer now
 * @backoff: NOWAIT attempts to skip after the next failed one
 * @skip: NOWAIT attempts still to skip; for this lane's worker only
 * @waiting: of a writer's lane: buffered reads that wait in work of their own
 * @serving: the image that the worker calls the file system for, or NULL; for
 *	this lane's worker only
 */
struct floop_lane {
	struct llist_head ios;
	struct llist_node mark;
	struct work_struct work;
	struct floop_lanes *lanes;
	/* on another cache line than the fields that submitters write */
	struct mutex writing ____cacheline_aligned_in_smp;
	unsigned int backoff;
	unsigned int skip;
	atomic_t waiting;
	struct floop_image *serving;
};

/**
 * struct floop_lanes - the lanes of a device
 * @cpus: a lane for each CPU
 * @writer: the lane of I/O that has to wait for the file system, one at a time
 * @flusher: the lane of flushes
 * @cgroups: the lanes of the cgroups but the root, allocated on demand
 * @cgroup_lanes: the number of them
 * @wq: the workqueue of all lanes, once it is allocated
 * @stale_wq: the workqueue that drops pages for mapped writes, once it is
 *	allocated; changes of the image wait for it, so nothing else runs there
 * @wq_lock: held to allocate the workqueues
 * @wq_work: allocates the workqueues
 * @wq_retry: the time of the next attempt to allocate them, in jiffies
 * @number: the device's number
 */
struct floop_lanes {
	struct floop_lane __percpu *cpus;
	struct floop_lane writer;
	struct floop_lane flusher;
	struct xarray cgroups;
	atomic_t cgroup_lanes;
	struct workqueue_struct *wq;
	struct workqueue_struct *stale_wq;
	/* protects both pointers against a second allocation */
	struct mutex wq_lock;
	struct work_struct wq_work;
	unsigned long wq_retry;
	int number;
};

typedef void floop_lane_pass_t(struct floop_lane *lane,
			       struct llist_node *node);

int floop_lane_init(void);
void floop_lane_exit(void);
struct floop_lanes *floop_lanes_alloc(int number);
int floop_lanes_alloc_wqs(struct floop_lanes *lanes);
void floop_lanes_remove_cgroups(struct floop_lanes *lanes);
void floop_lanes_free(struct floop_lanes *lanes);
void floop_lane_stale(struct floop_lanes *lanes, struct work_struct *work);
void floop_lane_route(struct floop_io *io);
void floop_lane_flush(struct floop_io *io);
void floop_lane_add(struct floop_lane *lane, struct floop_io *io);
struct floop_lane *floop_lane_find(struct floop_io *io, bool writer,
				   bool create);
struct llist_node *floop_lane_take(struct floop_lane *lane);
void floop_lane_run(struct floop_lane *lane, floop_lane_pass_t *pass);
void floop_lanes_queue(struct floop_lanes *lanes, struct work_struct *work);
int floop_lanes_max_active(void);

/* worker.c: what the workers do */
void floop_worker_cpu(struct work_struct *work);
void floop_worker_writer(struct work_struct *work);
void floop_worker_flusher(struct work_struct *work);
void floop_worker_requeue(struct floop_io *io);
bool floop_worker_serves(const struct floop_image *image);

/**
 * floop_lane_has_more() - has I/O been added since floop_lane_take()?
 * @lane: the lane, in its worker
 *
 * Context: Any.
 * Return: true if it has.
 */
static inline bool floop_lane_has_more(const struct floop_lane *lane)
{
	return READ_ONCE(lane->ios.first) != &lane->mark;
}

#endif /* FLOOP_LANE_H */
