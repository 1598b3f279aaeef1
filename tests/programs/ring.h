/* SPDX-License-Identifier: GPL-2.0 */
/* As much of io_uring as the test programs need, without liburing. */
#ifndef TESTS_RING_H
#define TESTS_RING_H

#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "common.h"

#define RING_ENTRIES	8U

struct ring {
	int fd;
	uint32_t *sq_tail;
	struct io_uring_sqe *sqes;
	struct io_uring_cqe *cqes;
};

static inline void *ring_map(int fd, uint64_t offset, size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		       (off_t)offset);

	if (p == MAP_FAILED)
		die("io_uring: %s", strerror(errno));
	return p;
}

/* A ring to be used once: entry N of the queue is sqes[N]. */
static inline void ring_make(struct ring *ring, unsigned int flags)
{
	struct io_uring_params params = { .flags = flags };
	uint32_t i, *array;
	uint8_t *sq, *cq;

	ring->fd = (int)syscall(SYS_io_uring_setup, RING_ENTRIES, &params);
	if (ring->fd < 0)
		die("io_uring_setup: %s", strerror(errno));
	sq = ring_map(ring->fd, IORING_OFF_SQ_RING,
		      params.sq_off.array + RING_ENTRIES * sizeof(*array));
	cq = ring_map(ring->fd, IORING_OFF_CQ_RING, params.cq_off.cqes +
		      params.cq_entries * sizeof(*ring->cqes));
	ring->sqes = ring_map(ring->fd, IORING_OFF_SQES,
			      RING_ENTRIES * sizeof(*ring->sqes));
	ring->sq_tail = (uint32_t *)(sq + params.sq_off.tail);
	ring->cqes = (struct io_uring_cqe *)(cq + params.cq_off.cqes);
	array = (uint32_t *)(sq + params.sq_off.array);
	for (i = 0; i < RING_ENTRIES; i++)
		array[i] = i;
}

/* Submit the first @submit entries; wait for @wait of them. */
static inline void ring_enter(struct ring *ring, uint32_t submit, uint32_t wait)
{
	unsigned int flags = wait ? IORING_ENTER_GETEVENTS : 0;

	__atomic_store_n(ring->sq_tail, submit, __ATOMIC_RELEASE);
	if (syscall(SYS_io_uring_enter, ring->fd, submit, wait, flags, NULL,
		    0) != (long)submit)
		die("io_uring_enter: %s", strerror(errno));
}

#endif
