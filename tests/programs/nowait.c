// SPDX-License-Identifier: GPL-2.0
/*
 * Whoever asks not to wait is not made to wait.
 *
 *   nowait rwf DEVICE OPS
 *	preadv2 and pwritev2 with RWF_NOWAIT: right data or EAGAIN, nothing else
 *   nowait ring DEVICE OPS DEPTH
 *	io_uring, whose submission asks for NOWAIT first: everything completes
 *	with right data. Prints how often the submitting thread went to sleep
 *	inside a submission and how many helper threads (iou-wrk) io_uring had
 *	to start because the device said EAGAIN or can't do NOWAIT at all.
 *
 * The device is overwritten.
 */
#include <dirent.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/io_uring.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "common.h"

#define BLOCK 4096

static int fd;
static uint64_t blocks;
static uint64_t *version;	/* of each block; 0: never written */
static struct rng rng = { 42 };

static void fill(void *buf, uint64_t block, uint64_t v)
{
	fill_pattern(buf, block * BLOCK, BLOCK, v);
}

static void must_be(const void *buf, uint64_t block, uint64_t v)
{
	if (v && check_pattern(buf, block * BLOCK, BLOCK, v) >= 0)
		die("block %ju: wrong data", (uintmax_t)block);
}

static int rwf(uint64_t ops)
{
	uint64_t again = 0, i;
	struct iovec iov = { aligned(BLOCK), BLOCK };

	for (i = 1; i <= ops; i++) {
		uint64_t b = below(&rng, blocks);
		int writes = rnd(&rng) & 1;
		ssize_t n;

		if (writes) {
			fill(iov.iov_base, b, i);
			n = pwritev2(fd, &iov, 1, (off_t)(b * BLOCK),
				     RWF_NOWAIT);
		} else {
			n = preadv2(fd, &iov, 1, (off_t)(b * BLOCK),
				    RWF_NOWAIT);
		}
		if (n < 0 && errno == EAGAIN) {
			again++;
			continue;
		}
		if (n != BLOCK)
			die("%s of block %ju: %zd, %s",
			    writes ? "write" : "read", (uintmax_t)b, n,
			    n < 0 ? strerror(errno) : "short");
		if (writes)
			version[b] = i;
		else
			must_be(iov.iov_base, b, version[b]);
	}
	printf("RWF_NOWAIT: %ju of %ju done, %ju EAGAIN\n",
	       (uintmax_t)(ops - again), (uintmax_t)ops, (uintmax_t)again);
	/* A driver that always says EAGAIN does not do NOWAIT. */
	return again * 2 > ops;
}

struct slot {
	uint8_t *buf;
	uint64_t block, version;
	int writes, busy;
};

static unsigned int helpers(void)
{
	DIR *d = opendir("/proc/self/task");
	unsigned int n = 0;
	struct dirent *e;

	while ((e = readdir(d))) {
		char path[300], name[32] = "";
		int f;

		snprintf(path, sizeof(path), "/proc/self/task/%s/comm",
			 e->d_name);
		f = open(path, O_RDONLY);
		if (f < 0)
			continue;
		if (read(f, name, sizeof(name) - 1) > 0 &&
		    !strncmp(name, "iou-wrk", 7))
			n++;
		close(f);
	}
	closedir(d);
	return n;
}

static long switches(void)
{
	struct rusage u;

	getrusage(RUSAGE_THREAD, &u);
	return u.ru_nvcsw;
}

static int ring(uint64_t ops, unsigned int depth)
{
	struct io_uring_params p = {};
	int r = (int)syscall(SYS_io_uring_setup, depth, &p);
	struct slot *slots = calloc(depth, sizeof(*slots));
	uint64_t begun = 0, ended = 0;
	unsigned int i, most = 0, slept = 0;
	uint8_t *sq, *cq;
	struct io_uring_sqe *sqes;
	struct io_uring_cqe *cqes;
	unsigned int *sq_tail, *sq_array, *cq_head, *cq_tail, sq_mask, cq_mask;

	if (r < 0)
		die("io_uring_setup: %s", strerror(errno));
	sq = mmap(NULL, p.sq_off.array + p.sq_entries * 4,
		  PROT_READ | PROT_WRITE, MAP_SHARED, r, IORING_OFF_SQ_RING);
	cq = mmap(NULL, p.cq_off.cqes + p.cq_entries * sizeof(*cqes),
		  PROT_READ | PROT_WRITE, MAP_SHARED, r, IORING_OFF_CQ_RING);
	sqes = mmap(NULL, p.sq_entries * sizeof(*sqes), PROT_READ | PROT_WRITE,
		    MAP_SHARED, r, IORING_OFF_SQES);
	if (sq == MAP_FAILED || cq == MAP_FAILED || sqes == MAP_FAILED)
		die("io_uring: mmap: %s", strerror(errno));
	sq_tail = (unsigned int *)(sq + p.sq_off.tail);
	sq_array = (unsigned int *)(sq + p.sq_off.array);
	sq_mask = *(unsigned int *)(sq + p.sq_off.ring_mask);
	cq_head = (unsigned int *)(cq + p.cq_off.head);
	cq_tail = (unsigned int *)(cq + p.cq_off.tail);
	cq_mask = *(unsigned int *)(cq + p.cq_off.ring_mask);
	cqes = (struct io_uring_cqe *)(cq + p.cq_off.cqes);
	for (i = 0; i < depth; i++) {
		slots[i].buf = aligned(BLOCK);
		memset(slots[i].buf, 0, BLOCK);
	}

	while (ended < ops) {
		unsigned int todo = 0, tail = *sq_tail, head;
		long before;

		for (i = 0; i < depth && begun < ops; i++) {
			struct slot *s = &slots[i];
			struct io_uring_sqe *e = &sqes[tail & sq_mask];

			if (s->busy)
				continue;
			/*
			 * Each slot has blocks of its own, so what a read must
			 * find is known.
			 */
			s->block = below(&rng, blocks / depth) * depth + i;
			s->writes = rnd(&rng) & 1;
			s->version = s->writes ? begun + 1 : version[s->block];
			if (s->writes)
				fill(s->buf, s->block, s->version);
			memset(e, 0, sizeof(*e));
			e->opcode = s->writes ? IORING_OP_WRITE
					      : IORING_OP_READ;
			e->fd = fd;
			e->addr = (uintptr_t)s->buf;
			e->len = BLOCK;
			e->off = s->block * BLOCK;
			e->user_data = i;
			sq_array[tail & sq_mask] = tail & sq_mask;
			tail++;
			todo++;
			begun++;
			s->busy = 1;
		}
		__atomic_store_n(sq_tail, tail, __ATOMIC_RELEASE);
		if (todo) {
			before = switches();
			if (syscall(SYS_io_uring_enter, r, todo, 0, 0, NULL,
				    0) != (long)todo)
				die("io_uring_enter: %s", strerror(errno));
			slept += switches() != before;
		}
		if (syscall(SYS_io_uring_enter, r, 0, 1, IORING_ENTER_GETEVENTS,
			    NULL, 0) < 0)
			die("io_uring_enter: %s", strerror(errno));
		head = *cq_head;
		while (head != __atomic_load_n(cq_tail, __ATOMIC_ACQUIRE)) {
			struct io_uring_cqe *c = &cqes[head++ & cq_mask];
			struct slot *s = &slots[c->user_data];

			if (c->res != BLOCK)
				die("%s of block %ju: %s",
				    s->writes ? "write" : "read",
				    (uintmax_t)s->block,
				    c->res < 0 ? strerror(-c->res) : "short");
			if (s->writes)
				version[s->block] = s->version;
			else
				must_be(s->buf, s->block, s->version);
			s->busy = 0;
			ended++;
		}
		__atomic_store_n(cq_head, head, __ATOMIC_RELEASE);
		if (!(begun % 64) || ended == ops) {
			unsigned int n = helpers();

			if (n > most)
				most = n;
		}
	}
	printf("ops=%ju depth=%u slept=%u helpers=%u\n", (uintmax_t)ops, depth,
	       slept, most);
	return 0;
}

int main(int argc, char **argv)
{
	uint64_t size;

	if (argc < 4)
		die("nowait rwf DEVICE OPS, nowait ring DEVICE OPS DEPTH");
	fd = open(argv[2], O_RDWR | O_DIRECT | O_CLOEXEC);
	if (fd < 0 || ioctl(fd, BLKGETSIZE64, &size))
		die("%s: %s", argv[2], strerror(errno));
	blocks = size / BLOCK;
	version = calloc(blocks, sizeof(*version));
	if (!strcmp(argv[1], "rwf"))
		return rwf(bytes(argv[3]));
	if (strcmp(argv[1], "ring") || argc != 5)
		die("nowait rwf DEVICE OPS, nowait ring DEVICE OPS DEPTH");
	return ring(bytes(argv[3]), (unsigned int)atoi(argv[4]));
}
