// SPDX-License-Identifier: GPL-2.0
/* The device in use: its I/O, and the expected content of its sectors. */
#include <linux/aio_abi.h>
#include <linux/fs.h>
#include <sys/resource.h>
#include <sys/uio.h>

#include "torture.h"

/* Sacrificed sectors hold data of their writers only. */
static void check_sacrificed(const void *buf, size_t len, uint64_t sector)
{
	size_t at;

	for (at = 0; at < len; at += SECTOR) {
		const uint64_t *w = (const void *)((const char *)buf + at);

		if (w[0] && (w[1] != run || (w[0] != (MAGIC | SACRIFICED) &&
					     w[0] != (MAGIC | DONATED))))
			fail("read of the device: sacrificed sector %ju holds what is foreign: %s",
			     (uintmax_t)(sector + at / SECTOR), whose(w));
	}
}

struct io {
	struct iocb cb;
	uint32_t first, nr, gen;	/* sectors */
	bool write;
	uint8_t *buf;
};

static long io_sync(int fd, struct io *io)
{
	off_t pos = (off_t)io->first * SECTOR;
	size_t len = io->nr * SECTOR;
	ssize_t n;

	n = io->write ? pwrite(fd, io->buf, len, pos) :
			pread(fd, io->buf, len, pos);
	return n < 0 ? -errno : n;
}

/*
 * Not yet the right answer: it may not wait, or what was freed can't be had
 * again yet.
 */
static long io_again(int fd, struct io *io, long res)
{
	int i;

	for (i = 0; i < 250 && (res == -EAGAIN || res == -ENOSPC); i++) {
		if (res == -EAGAIN && !(io->cb.aio_rw_flags & RWF_NOWAIT))
			break;
		if (res == -ENOSPC) {
			no_space++;
			usleep(20000);
		} else {
			agains++;
		}
		res = io_sync(fd, io);
	}
	if (res != (long)io->nr * SECTOR)
		fail("request error: %s of sectors %u to %u of the device: %s",
		     io->write ? "write" : "read", io->first,
		     io->first + io->nr - 1,
		     res < 0 ? strerror((int)-res) : "cut short");
	return res;
}

static void io_done(struct io *io, long res, int fd)
{
	uint32_t i;

	io_again(fd, io, res);
	if (!io->write) {
		check_protected("read of the device", io->buf,
				(uint64_t)io->first * SECTOR, io->nr * SECTOR,
				done);
		reads++;
		return;
	}
	for (i = 0; i < io->nr; i++)
		done[io->first + i] = io->gen;
	writes++;
}

static bool chunk_use(uint32_t chunk)
{
	chunk_users[chunk]++;
	if (!chunk_taken[chunk])
		return true;
	chunk_users[chunk]--;
	return false;
}

void chunk_take(uint32_t chunk)
{
	while (atomic_exchange(&chunk_taken[chunk], 1))
		usleep(200);
	while (chunk_users[chunk])
		usleep(200);
}

static void io_choose(struct io *io, struct rng *r, uint32_t chunk)
{
	uint32_t sectors = CHUNK / SECTOR, block = BLOCK / SECTOR;

	switch (sector_size == SECTOR ? below(r, 8) : 2 + below(r, 6)) {
	case 0:
	case 1:
		io->nr = 1 + (uint32_t)below(r, 16);
		io->first = (uint32_t)below(r, sectors - io->nr + 1);
		break;
	case 2:
		io->nr = block * (1 + (uint32_t)below(r, 16));
		io->first = block *
			    (uint32_t)below(r, (sectors - io->nr) / block + 1);
		break;
	default:
		io->nr = block * (1 + (uint32_t)below(r, 2));
		io->first = block *
			    (uint32_t)below(r, (sectors - io->nr) / block + 1);
	}
	io->first += chunk * sectors;
}

static void discard(int fd, struct rng *r, uint32_t chunk, uint32_t gen)
{
	uint32_t first = grain > 1 ? 0 : (uint32_t)below(r, 8);
	uint32_t nr = grain > 1 ? 16 : 1 + (uint32_t)below(r, 16 - first);
	uint64_t range[2] = {
		(uint64_t)chunk * CHUNK + first * BLOCK,
		nr * BLOCK,
	};
	bool zero = !below(r, 3);
	uint32_t i;
	int n;

	first = (uint32_t)(range[0] / SECTOR);
	nr = (uint32_t)(range[1] / SECTOR);
	for (i = 0; i < nr; i++)
		issued[first + i] = gen;
	for (n = 0; ioctl(fd, zero ? BLKZEROOUT : BLKDISCARD, range); n++) {
		if (errno != ENOSPC || n == 250)
			fail("request error: %s of sectors %u to %u of the device: %s",
			     zero ? "BLKZEROOUT" : "BLKDISCARD", first,
			     first + nr - 1, strerror(errno));
		usleep(20000);
	}
	for (i = 0; i < nr; i++)
		done[first + i] = gen;
	discards++;
}

/* A thread of the device's I/O: it writes to every @jobs-th chunk. */
struct io_job {
	unsigned int id;
	struct rng r;
	struct task *task;
	int fd;
	aio_context_t ctx;
	uint32_t gen;
	struct io ios[DEPTH_MOST];
	uint32_t used[DEPTH_MOST];	/* the chunk of each that is a write */
};

static uint32_t own_chunk(struct io_job *job)
{
	return job->id + jobs * (uint32_t)below(&job->r, chunks / jobs);
}

static void job_begin(struct io_job *job)
{
	int flags = (read_only ? O_RDONLY : O_RDWR) | O_DIRECT | O_CLOEXEC;
	unsigned int i;

	job->r.state = mix(seed * 100 + job->id);
	job->task = task_new("I/O", job->id);
	job->fd = open(device, flags);
	job->gen = 1;
	/* The machine has few CPUs: attackers come first. */
	setpriority(PRIO_PROCESS, (id_t)job->task->tid, 10);
	if (job->fd < 0)
		fail("%s: %s", device, strerror(errno));
	if (syscall(SYS_io_setup, DEPTH_MOST, &job->ctx))
		fail("io_setup: %s", strerror(errno));
	for (i = 0; i < depth; i++)
		job->ios[i].buf = aligned(CHUNK);
}

static void job_discard(struct io_job *job)
{
	uint32_t chunk = own_chunk(job);

	if (!chunk_use(chunk))
		return;
	doing(job->task, "discard");
	discard(job->fd, &job->r, chunk, job->gen * 2 + 1);
	chunk_users[chunk]--;
}

static void job_flush(struct io_job *job)
{
	doing(job->task, "flush");
	if (fsync(job->fd))
		fail("request error: flush of the device: %s", strerror(errno));
	flushes++;
}

static bool overlaps(const struct io *a, const struct io *b)
{
	return a->first < b->first + b->nr && b->first < a->first + a->nr;
}

static void io_prepare(struct io_job *job, struct io *io, unsigned int n)
{
	uint32_t j;

	io->gen = job->gen * 2;
	memset(&io->cb, 0, sizeof(io->cb));
	io->cb.aio_fildes = (uint32_t)job->fd;
	io->cb.aio_data = n;
	io->cb.aio_lio_opcode = io->write ? IOCB_CMD_PWRITE : IOCB_CMD_PREAD;
	io->cb.aio_buf = (uintptr_t)io->buf;
	io->cb.aio_nbytes = io->nr * SECTOR;
	io->cb.aio_offset = (int64_t)io->first * SECTOR;
	if (!below(&job->r, 6)) {
		io->cb.aio_rw_flags = RWF_NOWAIT;
		nowaits++;
	} else if (io->write && !below(&job->r, 10)) {
		io->cb.aio_rw_flags = RWF_DSYNC;
		fuas++;
	}
	if (!io->write) {
		memset(io->buf, 0x5a, io->nr * SECTOR);
		return;
	}
	stamp(io->buf, io->nr * SECTOR, PROTECTED, io->first, io->gen);
	for (j = 0; j < io->nr; j++)
		issued[io->first + j] = io->gen;
}

/* As many I/Os as are to be in flight, none of which overlaps another */
static unsigned int job_prepare(struct io_job *job)
{
	unsigned int n = 0, j, tries;

	for (tries = 0; tries < depth; tries++) {
		struct io *io = &job->ios[n];
		uint32_t chunk = own_chunk(job);

		io_choose(io, &job->r, chunk);
		for (j = 0; j < n; j++)
			if (overlaps(io, &job->ios[j]))
				break;
		if (j < n)
			continue;
		io->write = !read_only && below(&job->r, 5) < 3;
		if (io->write && !chunk_use(chunk))
			continue;
		job->used[n] = chunk;
		io_prepare(job, io, n);
		n++;
	}
	return n;
}

static void job_submit(struct io_job *job, unsigned int n)
{
	struct iocb *cbs[DEPTH_MOST];
	unsigned int i;
	long got;

	for (i = 0; i < n; i++)
		cbs[i] = &job->ios[i].cb;
	for (i = 0; i < n; i += (unsigned int)got) {
		doing(job->task, "io_submit");
		got = syscall(SYS_io_submit, job->ctx, (long)(n - i), cbs + i);
		if (got <= 0)
			fail("io_submit: %s", strerror(errno));
	}
}

static void job_complete(struct io_job *job, unsigned int n)
{
	struct io_event events[DEPTH_MOST];
	unsigned int i;
	long got, e;

	for (i = 0; i < n;) {
		doing(job->task, "io_getevents");
		got = syscall(SYS_io_getevents, job->ctx, 1L, (long)(n - i),
			      events, NULL);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			fail("io_getevents: %s", strerror(errno));
		for (e = 0; e < got; e++) {
			struct io *io = &job->ios[events[e].data];

			io_done(io, (long)events[e].res, job->fd);
			if (io->write)
				chunk_users[job->used[events[e].data]]--;
		}
		i += (unsigned int)got;
	}
}

void *io_thread(void *arg)
{
	static struct io_job all[JOBS_MOST];
	unsigned int id = (unsigned int)(uintptr_t)arg, kind, n;
	struct io_job *job = &all[id];

	job->id = id;
	job_begin(job);
	while (!leaving) {
		kind = (unsigned int)below(&job->r, 1000);
		job->gen++;
		if (calm)
			usleep(10000);
		if (!read_only && kind < discards_of_1000) {
			job_discard(job);
		} else if (kind >= 980) {
			job_flush(job);
		} else {
			n = job_prepare(job);
			job_submit(job, n);
			job_complete(job, n);
		}
	}
	job->task->doing = NULL;
	close(job->fd);
	return NULL;
}

/* The sacrificed end of the device. */
void *sacrifice_thread(void *arg)
{
	struct rng r = { mix(seed * 100 + 77) };
	struct task *t = task_new("sacrifice", 0);
	int flags = (read_only ? O_RDONLY : O_RDWR) | O_DIRECT | O_CLOEXEC;
	int fd = open(device, flags);
	uint8_t *buf = aligned(CHUNK);
	uint64_t gen = 2;

	(void)arg;
	while (!leaving) {
		uint64_t block = below(&r, (others - prot) / BLOCK);
		uint64_t pos = prot + BLOCK * block;
		size_t len = BLOCK * (1 + below(&r, CHUNK / BLOCK));
		ssize_t n;
		int i;

		if (len > others - pos)
			len = others - pos;
		doing(t, "I/O to the sacrificed range");
		if (!read_only && below(&r, 2)) {
			stamp(buf, len, SACRIFICED, pos / SECTOR, gen++);
			for (i = 0; i < 250; i++) {
				n = pwrite(fd, buf, len, (off_t)pos);
				if (n >= 0 || errno != ENOSPC)
					break;
				usleep(20000);
			}
			writes++;
		} else {
			n = pread(fd, buf, len, (off_t)pos);
			if (n == (ssize_t)len)
				check_sacrificed(buf, len, pos / SECTOR);
			reads++;
		}
		if (n != (ssize_t)len)
			fail("request error: I/O to the sacrificed sectors %ju..: %s",
			     (uintmax_t)pos / SECTOR,
			     n < 0 ? strerror(errno) : "cut short");
		usleep(2000);
	}
	t->doing = NULL;
	close(fd);
	return NULL;
}
