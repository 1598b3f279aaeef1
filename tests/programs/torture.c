// SPDX-License-Identifier: GPL-2.0
/*
 * The guard under torture: everything that may move or change an image's blocks, while the device is in full use.
 *
 *   torture -i [-s SEED] IMAGE SIZE			make the image of a device of SIZE bytes, before it is attached
 *   torture [-s SEED] [-t SECONDS] [-n OPERATIONS] [-j THREADS] [-x THREADS] [-q DEPTH] [-g BLOCKS] [-w MS] [-W SECONDS] [-k OP,OP..]
 *	   [-K OP,OP..] [-d DISCARDS] [-e] [-r] [-b] DEVICE IMAGE
 *
 * Every sector of 512 bytes says whose it is: of which run, what place, which generation. The first three quarters of the
 * device are protected: each sector has one thread that writes it, and at any time it holds what was written last.
 * The rest is sacrificed: others change it in the image too, and it may hold anything of theirs, or zeroes, but nobody
 * else's. Its last quarter the device leaves to them: what they write there through the page cache collides with direct I/O to
 * the same place, as the kernel says, by an EIO for the I/O (iomap: IOMAP_DELALLOC) or for the next fsync
 * (dio_warn_stale_pagecache()). Behind the device's end the image has a tail that comes and goes.
 *
 * Others do to the image, in bursts, what a file system has to offer: above all they move the protected blocks
 * (EXT4_IOC_MOVE_EXT, reflink and dedupe, exchange of ranges), which keeps their content, and at once fill the blocks
 * that the image had with stamps of their own, the vulture's. A write by an old map is found there, and a read by an old
 * map finds them. Between bursts the image is left alone until it is mapped again.
 *
 * The disk gets nothing while its file system is frozen. -w says how many milliseconds the disk takes for a write: the
 * windows for I/O in flight are as long. -g: changes come in so many blocks, for a map that isn't too fine. -k: these
 * operations only, -K: not these. -d: of 1000 batches of I/O so many are a discard, after which nothing is mapped for a
 * while. -e: as soon as an epoch begins. -r is for a read-only device, -b for one whose guard is known to be broken.
 */
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>

#include "common.h"
#include "loopstat.h"
#include "stamp.h"

#define BLOCK 4096U		/* what is moved: a multiple of any file system's block */
#define CHUNK (64U << 10)	/* written by one thread */
#define TAIL (1U << 20)
#define DONOR_BLOCKS 128U
#define MOVE_MOST 64U		/* blocks at a time */
#define DEPTH_MOST 64
#define BUF (1U << 20)
#define RESERVE (40U << 20)	/* of the file system, that the vulture leaves */
#define CARCASSES 96U

static const char *device, *image;
static char dir[256], sysfs[256], disk_stat[64];
uint64_t run;
static uint64_t seed = 1, size, prot, others;	/* bytes */
static unsigned int jobs = 2, hostiles = 3, depth = 8, discards_of_1000 = 4, slow, patience = 90, chunks, sector_size, grain = 1;
static bool read_only, broken_rules, at_once;
static int mount_fd;
static struct file_handle *handle;
static atomic_bool stopping, frozen, leaving, calm;
static atomic_uint open_ops;		/* what the burst allows: a bit for each operation */
static atomic_int busy;
static _Atomic uint32_t *done, *issued;	/* the generation of each protected sector: surely there, perhaps there */
static atomic_uint *chunk_users, *chunk_taken;

/* What each thread is doing, for whom waits for it in vain. */
static struct task {
	char name[24];
	_Atomic(const char *) doing;
	_Atomic double since;
	pid_t tid;
} tasks[64];
static atomic_int nr_tasks;
static double waited_to_map, waited_to_end;

static atomic_ulong reads, writes, fuas, flushes, discards, nowaits, agains, no_space, kept_bytes, stale_for_a_moment, bursts;

static struct task *task_new(const char *name, unsigned int id)
{
	struct task *t = &tasks[atomic_fetch_add(&nr_tasks, 1)];

	snprintf(t->name, sizeof(t->name), "%s %u", name, id);
	t->tid = (pid_t)syscall(SYS_gettid);
	t->doing = NULL;
	return t;
}

static void doing(struct task *t, const char *what)
{
	t->since = seconds();
	t->doing = what;
}

static void say_stacks(void)
{
	double now = seconds();
	int i;

	for (i = 0; i < nr_tasks; i++) {
		const char *what = tasks[i].doing;
		char path[64], buf[4096];
		ssize_t n;
		int fd;

		if (!what || now - tasks[i].since < 1)
			continue;
		printf("  %s: %s for %.1f s\n", tasks[i].name, what, now - tasks[i].since);
		snprintf(path, sizeof(path), "/proc/self/task/%d/stack", tasks[i].tid);
		fd = open(path, O_RDONLY);
		n = fd < 0 ? -1 : read(fd, buf, sizeof(buf));
		if (n > 0)
			printf("%.*s", (int)n, buf);
	}
	fflush(stdout);
}

/* Say what is wrong, and end all of it. */
__attribute__((format(printf, 1, 2), noreturn))
static void fail(const char *fmt, ...)
{
	static atomic_bool failed;
	va_list ap;

	if (atomic_exchange(&failed, true))
		for (;;)
			pause();
	if (frozen)
		ioctl(mount_fd, FITHAW, 0);
	printf("TORTURE FAILED: ");
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf(" (seed %ju)\n", (uintmax_t)seed);
	fflush(stdout);
	_exit(1);
}

__attribute__((noreturn))
static void fail_sector(const char *who, const void *buf, uint64_t sector, uint32_t from, uint32_t to)
{
	if (from == to)
		fail("%s: sector %ju of the device: expected %s of generation %u, found %s", who, (uintmax_t)sector,
		     from & 1 ? "zeroes" : "its stamp", from, whose(buf));
	fail("%s: sector %ju of the device: expected its generation %u to %u, found %s", who, (uintmax_t)sector, from, to,
	     whose(buf));
}

/* Sacrificed sectors hold anything of those who write there, but nobody else's. */
static void check_sacrificed(const void *buf, size_t len, uint64_t sector)
{
	size_t at;

	for (at = 0; at < len; at += SECTOR) {
		const uint64_t *w = (const void *)((const char *)buf + at);

		if (w[0] && (w[1] != run || (w[0] != (MAGIC | SACRIFICED) && w[0] != (MAGIC | DONATED))))
			fail("read of the device: sacrificed sector %ju holds what is foreign: %s",
			     (uintmax_t)(sector + at / SECTOR), whose(w));
	}
}

/* I/O on the device. */

struct io {
	struct iocb cb;
	uint32_t first, nr, gen;	/* sectors */
	bool write;
	uint8_t *buf;
};

static long io_sync(int fd, struct io *io)
{
	ssize_t n = io->write ? pwrite(fd, io->buf, io->nr * SECTOR, (off_t)io->first * SECTOR) :
				pread(fd, io->buf, io->nr * SECTOR, (off_t)io->first * SECTOR);

	return n < 0 ? -errno : n;
}

/* Not yet the right answer: it may not wait, or what was freed can't be had again yet. */
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
		fail("request error: %s of sectors %u to %u of the device: %s", io->write ? "write" : "read", io->first,
		     io->first + io->nr - 1, res < 0 ? strerror((int)-res) : "cut short");
	return res;
}

static void io_done(struct io *io, long res, int fd)
{
	uint32_t i;

	io_again(fd, io, res);
	for (i = 0; i < io->nr; i++) {
		uint32_t s = io->first + i, gen = done[s];

		if (io->write)
			done[s] = io->gen;
		else if (!is_right(io->buf + i * SECTOR, s, gen, gen, false))
			fail_sector("read of the device", io->buf + i * SECTOR, s, gen, gen);
	}
	atomic_fetch_add(io->write ? &writes : &reads, 1);
}

static bool chunk_use(uint32_t chunk)
{
	chunk_users[chunk]++;
	if (!chunk_taken[chunk])
		return true;
	chunk_users[chunk]--;
	return false;
}

/* Nobody writes to it until it is let go. */
static void chunk_take(uint32_t chunk)
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
	case 0: case 1:
		io->nr = 1 + (uint32_t)below(r, 16);
		io->first = (uint32_t)below(r, sectors - io->nr + 1);
		break;
	case 2:
		io->nr = block * (1 + (uint32_t)below(r, 16));
		io->first = block * (uint32_t)below(r, (sectors - io->nr) / block + 1);
		break;
	default:
		io->nr = block * (1 + (uint32_t)below(r, 2));
		io->first = block * (uint32_t)below(r, (sectors - io->nr) / block + 1);
	}
	io->first += chunk * sectors;
}

static void discard(int fd, struct rng *r, uint32_t chunk, uint32_t gen)
{
	uint32_t first = grain > 1 ? 0 : (uint32_t)below(r, 8), nr = grain > 1 ? 16 : 1 + (uint32_t)below(r, 16 - first), i;
	uint64_t range[2] = { (uint64_t)chunk * CHUNK + first * BLOCK, nr * BLOCK };
	bool zero = !below(r, 3);
	int n;

	first = (uint32_t)(range[0] / SECTOR);
	nr = (uint32_t)(range[1] / SECTOR);
	for (i = 0; i < nr; i++)
		issued[first + i] = gen;
	for (n = 0; ioctl(fd, zero ? BLKZEROOUT : BLKDISCARD, range); n++) {
		if (errno != ENOSPC || n == 250)
			fail("request error: %s of sectors %u to %u of the device: %s", zero ? "BLKZEROOUT" : "BLKDISCARD",
			     first, first + nr - 1, strerror(errno));
		usleep(20000);
	}
	for (i = 0; i < nr; i++)
		done[first + i] = gen;
	discards++;
}

static void *io_thread(void *arg)
{
	unsigned int id = (unsigned int)(uintptr_t)arg, n, i, j, tries;
	struct rng r = { mix(seed * 100 + id) };
	struct task *t = task_new("I/O", id);
	int fd = open(device, (read_only ? O_RDONLY : O_RDWR) | O_DIRECT | O_CLOEXEC);
	static struct io all[16][DEPTH_MOST];
	struct io *ios = all[id];
	struct io_event events[DEPTH_MOST];
	aio_context_t ctx = 0;
	uint32_t gen = 1;

	/* The machine's CPUs are few; who attacks comes first. */
	setpriority(PRIO_PROCESS, (id_t)t->tid, 10);
	if (fd < 0)
		fail("%s: %s", device, strerror(errno));
	if (syscall(SYS_io_setup, DEPTH_MOST, &ctx))
		fail("io_setup: %s", strerror(errno));
	for (i = 0; i < depth; i++)
		ios[i].buf = aligned(CHUNK);

	while (!leaving) {
		struct iocb *cbs[DEPTH_MOST];
		uint32_t used[DEPTH_MOST], chunk;
		unsigned int kind = (unsigned int)below(&r, 1000);

		gen++;
		if (calm)
			usleep(10000);
		if (!read_only && kind < discards_of_1000) {
			chunk = id + jobs * (uint32_t)below(&r, chunks / jobs);
			if (!chunk_use(chunk))
				continue;
			doing(t, "discard");
			discard(fd, &r, chunk, gen * 2 + 1);
			chunk_users[chunk]--;
			continue;
		}
		if (kind >= 980) {
			doing(t, "flush");
			if (fsync(fd))
				fail("request error: flush of the device: %s", strerror(errno));
			flushes++;
			continue;
		}
		for (n = 0, tries = 0; tries < depth; tries++) {
			struct io *io = &ios[n];

			chunk = id + jobs * (uint32_t)below(&r, chunks / jobs);
			io_choose(io, &r, chunk);
			for (j = 0; j < n; j++)
				if (io->first < ios[j].first + ios[j].nr && ios[j].first < io->first + io->nr)
					break;
			if (j < n)
				continue;
			io->write = !read_only && below(&r, 5) < 3;
			if (io->write && !chunk_use(chunk))
				continue;
			used[n] = chunk;
			io->gen = gen * 2;
			memset(&io->cb, 0, sizeof(io->cb));
			io->cb.aio_fildes = (uint32_t)fd;
			io->cb.aio_data = n;
			io->cb.aio_lio_opcode = io->write ? IOCB_CMD_PWRITE : IOCB_CMD_PREAD;
			io->cb.aio_buf = (uintptr_t)io->buf;
			io->cb.aio_nbytes = io->nr * SECTOR;
			io->cb.aio_offset = (int64_t)io->first * SECTOR;
			if (!below(&r, 6)) {
				io->cb.aio_rw_flags = RWF_NOWAIT;
				nowaits++;
			} else if (io->write && !below(&r, 10)) {
				io->cb.aio_rw_flags = RWF_DSYNC;
				fuas++;
			}
			if (io->write) {
				stamp(io->buf, io->nr * SECTOR, PROTECTED, io->first, io->gen);
				for (j = 0; j < io->nr; j++)
					issued[io->first + j] = io->gen;
			} else {
				memset(io->buf, 0x5a, io->nr * SECTOR);
			}
			cbs[n++] = &io->cb;
		}
		for (i = 0; i < n;) {
			long got;

			doing(t, "io_submit");
			got = syscall(SYS_io_submit, ctx, (long)(n - i), cbs + i);
			if (got <= 0)
				fail("io_submit: %s", strerror(errno));
			i += (unsigned int)got;
		}
		for (i = 0; i < n;) {
			long got, e;

			doing(t, "io_getevents");
			got = syscall(SYS_io_getevents, ctx, 1L, (long)(n - i), events, NULL);
			if (got < 0 && errno == EINTR)
				continue;
			if (got <= 0)
				fail("io_getevents: %s", strerror(errno));
			for (e = 0; e < got; e++) {
				struct io *io = &ios[events[e].data];

				io_done(io, (long)events[e].res, fd);
				if (io->write)
					chunk_users[used[events[e].data]]--;
			}
			i += (unsigned int)got;
		}
	}
	t->doing = NULL;
	close(fd);
	return NULL;
}

/* The sacrificed end of the device. */
static void *sacrifice_thread(void *arg)
{
	struct rng r = { mix(seed * 100 + 77) };
	struct task *t = task_new("sacrifice", 0);
	int fd = open(device, (read_only ? O_RDONLY : O_RDWR) | O_DIRECT | O_CLOEXEC);
	uint8_t *buf = aligned(CHUNK);
	uint64_t gen = 2;

	(void)arg;
	while (!leaving) {
		uint64_t pos = prot + BLOCK * below(&r, (others - prot) / BLOCK);
		size_t len = BLOCK * (1 + below(&r, CHUNK / BLOCK));
		ssize_t n;
		int i;

		if (len > others - pos)
			len = others - pos;
		doing(t, "I/O to the sacrificed range");
		if (!read_only && below(&r, 2)) {
			stamp(buf, len, SACRIFICED, pos / SECTOR, gen++);
			for (i = 0; (n = pwrite(fd, buf, len, (off_t)pos)) < 0 && errno == ENOSPC && i < 250; i++)
				usleep(20000);
			writes++;
		} else {
			n = pread(fd, buf, len, (off_t)pos);
			if (n == (ssize_t)len)
				check_sacrificed(buf, len, pos / SECTOR);
			reads++;
		}
		if (n != (ssize_t)len)
			fail("request error: I/O to the sacrificed sectors %ju..: %s", (uintmax_t)pos / SECTOR,
			     n < 0 ? strerror(errno) : "cut short");
		usleep(2000);
	}
	t->doing = NULL;
	close(fd);
	return NULL;
}

/* Files of the vulture's: who holds blocks that the image had. */

struct donor {
	int fd;
	uint32_t id;
	uint32_t gen[DONOR_BLOCKS];
};

struct hostile {
	unsigned int id;
	struct rng r;
	struct task *task;
	struct donor donor;
	int copy;	/* a file for copies, dedupe's source */
	uint8_t *buf, *other;
};

static uint64_t donor_place(struct donor *d, uint32_t block)
{
	return (uint64_t)d->id << 32 | block * (BLOCK / SECTOR);
}

static void full_write(int fd, const void *buf, size_t len, uint64_t pos, const char *what)
{
	ssize_t n;
	int i;

	for (i = 0; (n = pwrite(fd, buf, len, (off_t)pos)) < 0 && errno == ENOSPC && i < 250; i++) {
		no_space++;
		usleep(20000);
	}
	if (n != (ssize_t)len)
		fail("write to %s: %s", what, n < 0 ? strerror(errno) : "cut short");
}

static void donor_write(struct hostile *h, uint32_t first, uint32_t nr)
{
	struct donor *d = &h->donor;
	uint32_t i;

	for (i = 0; i < nr; i++)
		stamp(h->buf + i * BLOCK, BLOCK, VULTURE, donor_place(d, first + i), ++d->gen[first + i]);
	full_write(d->fd, h->buf, nr * BLOCK, (uint64_t)first * BLOCK, "the vulture's file");
	kept_bytes += nr * BLOCK;
}

static void donor_check(struct hostile *h, uint32_t first, uint32_t nr)
{
	struct donor *d = &h->donor;
	uint32_t i, s;

	if (pread(d->fd, h->buf, nr * BLOCK, (off_t)first * BLOCK) != (ssize_t)(nr * BLOCK))
		fail("read of the vulture's file: %s", strerror(errno));
	for (i = 0; i < nr; i++)
		for (s = 0; s < BLOCK / SECTOR; s++) {
			uint8_t *p = h->buf + i * BLOCK + s * SECTOR;
			uint64_t place = donor_place(d, first + i) + s;

			if (!is_stamp(p, VULTURE, place, d->gen[first + i]))
				fail("the vulture's file %u, sector %ju: expected its generation %u, found %s: a write that landed in another's block",
				     d->id, (uintmax_t)(place & 0xffffffff), d->gen[first + i], whose(p));
		}
}

static int make_file(const char *name, unsigned int id, int flags)
{
	char path[320];
	int fd;

	snprintf(path, sizeof(path), "%s/torture.%s.%u", dir, name, id);
	unlink(path);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | flags, 0600);
	if (fd < 0)
		fail("%s: %s", path, strerror(errno));
	return fd;
}

/* Some time for what is in flight to land. */
static void linger(struct hostile *h)
{
	usleep((useconds_t)below(&h->r, slow ? 2500 * slow : 4000));
}

/* Hostile operations: 0 or -errno. What may not happen at all ends the run. */

static int open_image(struct hostile *h, int flags)
{
	int fd;

	if (!below(&h->r, 3))
		flags |= O_NONBLOCK;
	if (!below(&h->r, 3))
		fd = open_by_handle_at(mount_fd, handle, flags | O_CLOEXEC);
	else
		fd = open(image, flags | O_CLOEXEC);
	if (fd < 0)
		fail("open of the image, flags %#x: %s: nobody may be kept out of it", flags, strerror(errno));
	return fd;
}

static int ret_close(int fd, long ret)
{
	int err = ret < 0 ? -errno : 0;

	close(fd);
	return err;
}

static int op_open(struct hostile *h)
{
	static const int modes[] = { O_RDONLY, O_RDWR, O_WRONLY };
	int fd = open_image(h, modes[below(&h->r, 3)] | (below(&h->r, 3) ? 0 : O_DIRECT));

	if (!below(&h->r, 8))
		usleep((useconds_t)below(&h->r, 3000));
	close(fd);
	return 0;
}

static void sample(uint32_t *to, _Atomic uint32_t *from, uint64_t pos, size_t len)
{
	size_t i;

	for (i = 0; i < len / SECTOR; i++)
		to[i] = from[pos / SECTOR + i];
}

/* The protected range through the file; by what others see. How many sectors are older than they may be? */
static unsigned int check_file(const void *buf, uint64_t pos, size_t len, const uint32_t *from, bool last, const char *how)
{
	unsigned int stale = 0;
	size_t i;

	for (i = 0; i < len / SECTOR; i++) {
		const uint64_t *w = (const void *)((const char *)buf + i * SECTOR);
		uint64_t s = pos / SECTOR + i;
		uint32_t to = issued[s];

		if (is_right(w, s, from[i], to, true))
			continue;
		/* Until the last write has ended, a page may be what the disk was before. */
		if (!last && (is_zero(w) || (w[2] == s && is_right(w, s, 1, to, true)))) {
			stale++;
			continue;
		}
		fail_sector(how, w, s, from[i], to);
	}
	return stale;
}

static void pick(struct hostile *h, uint64_t *pos, size_t *len, uint32_t most)
{
	uint64_t blocks = grain * (1 + below(&h->r, most > grain ? most / grain : 1));

	*pos = below(&h->r, (prot / BLOCK - blocks) / grain + 1) * grain * BLOCK;
	*len = blocks * BLOCK;
}

static int read_file(struct hostile *h, int how)
{
	static const char * const hows[] = { "read of the file", "direct read of the file", "mapped file" };
	uint32_t from[BUF / SECTOR];
	uint64_t pos;
	size_t len;
	int fd, n;

	pick(h, &pos, &len, slow ? 128 : 32);
	sample(from, done, pos, len);
	fd = open_image(h, O_RDONLY | (how == 1 ? O_DIRECT : 0));
	for (n = 0; n < 3; n++) {
		unsigned int stale;

		if (how == 2) {
			void *buf = mmap(NULL, len, PROT_READ, MAP_SHARED, fd, (off_t)pos);
			if (buf == MAP_FAILED)
				return ret_close(fd, -1);
			/* It goes on changing. */
			memcpy(h->buf, buf, len);
			munmap(buf, len);
		} else if (pread(fd, h->buf, len, (off_t)pos) != (ssize_t)len) {
			fail("%s: %s", hows[how], strerror(errno));
		}
		stale = check_file(h->buf, pos, len, from, n == 2 || how == 1, hows[how]);
		if (stale)
			stale_for_a_moment++;
		else if (n || below(&h->r, 2))
			break;
		/* Again, when all that was in flight has landed: what is cached now has to be new. */
		if (n)
			usleep(300000 + slow * 5000);
		else
			linger(h);
		if (!stale)
			sample(from, done, pos, len);
	}
	close(fd);
	return 0;
}

static int op_read(struct hostile *h) { return read_file(h, 0); }
static int op_read_direct(struct hostile *h) { return read_file(h, 1); }
static int op_mmap_read(struct hostile *h) { return read_file(h, 2); }

static int op_truncate(struct hostile *h)
{
	return truncate(image, (off_t)(size + below(&h->r, TAIL))) ? -errno : 0;
}

static int op_ftruncate(struct hostile *h)
{
	int fd = open_image(h, O_RDWR);

	return ret_close(fd, ftruncate(fd, (off_t)(size + below(&h->r, TAIL))));
}

static uint64_t pick_sacrificed(struct hostile *h, size_t *len, uint64_t from)
{
	uint64_t pos = from + BLOCK * grain * below(&h->r, (size - from) / BLOCK / grain);

	*len = BLOCK * grain * (1 + below(&h->r, 64 / grain));
	if (*len > size - pos)
		*len = size - pos;
	return pos;
}

static int op_hole(struct hostile *h)
{
	static const int modes[] = {
		FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE,
		FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
	};
	size_t len;
	uint64_t pos = pick_sacrificed(h, &len, prot);
	int fd = open_image(h, O_RDWR);

	return ret_close(fd, fallocate(fd, modes[below(&h->r, 4)], (off_t)pos, (off_t)len));
}

/* What is a hole is a hole no more, and reads the same. */
static int op_prealloc(struct hostile *h)
{
	int fd = open_image(h, O_RDWR);
	uint64_t pos;
	size_t len;

	if (below(&h->r, 2)) {
		pos = 0;
		len = prot;
	} else {
		pick(h, &pos, &len, 64);
	}
	return ret_close(fd, fallocate(fd, FALLOC_FL_KEEP_SIZE, (off_t)pos, (off_t)len));
}

static int op_shift(struct hostile *h)
{
	int fd = open_image(h, O_RDWR), mode = below(&h->r, 2) ? FALLOC_FL_COLLAPSE_RANGE : FALLOC_FL_INSERT_RANGE;

	if (ftruncate(fd, (off_t)(size + TAIL)) || fallocate(fd, 0, (off_t)size, TAIL / 2))
		return ret_close(fd, -1);
	return ret_close(fd, fallocate(fd, mode, (off_t)(size + BLOCK * below(&h->r, 16)),
				       (off_t)(BLOCK * (1 + below(&h->r, 16)))));
}

static int op_mmap_write(struct hostile *h)
{
	size_t len;
	uint64_t pos = pick_sacrificed(h, &len, others);
	int fd = open_image(h, O_RDWR);
	void *map = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)pos);

	if (map == MAP_FAILED)
		return ret_close(fd, -1);
	stamp(map, len, DONATED, pos / SECTOR, rnd(&h->r));
	if (below(&h->r, 2))
		msync(map, len, MS_SYNC);
	munmap(map, len);
	close(fd);
	return 0;
}

/* ext4: blocks of the image change places with the donor's, and keep what they hold. */
static int op_move(struct hostile *h)
{
	struct { uint32_t reserved, donor; uint64_t orig, to, len, moved; } move = {};
	struct statfs fs;
	uint64_t pos;
	uint32_t at, nr, each;
	size_t len;
	int fd, err;

	pick(h, &pos, &len, MOVE_MOST);
	nr = (uint32_t)(len / BLOCK);
	at = (uint32_t)below(&h->r, (DONOR_BLOCKS - nr) / grain + 1) * grain;
	donor_check(h, at, nr);
	if (fstatfs(h->donor.fd, &fs))
		fail("statfs: %s", strerror(errno));
	each = BLOCK / (uint32_t)fs.f_bsize;
	move.donor = (uint32_t)h->donor.fd;
	move.orig = pos / BLOCK * each;
	move.to = at * each;
	move.len = nr * each;
	fd = open_image(h, O_RDWR);
	err = ret_close(fd, ioctl(fd, _IOWR('f', 15, __typeof__(move)), &move));
	donor_write(h, at, nr);
	linger(h);
	donor_check(h, at, nr);
	return err;
}

static int clone_to_donor(struct hostile *h, int fd, uint64_t pos, uint32_t at, uint32_t nr)
{
	struct file_clone_range range = { fd, pos, nr * BLOCK, (uint64_t)at * BLOCK };

	return ioctl(h->donor.fd, FICLONERANGE, &range);
}

/* xfs: what is cloned shall not change, whatever is written to the image. */
static int op_clone(struct hostile *h)
{
	uint32_t from[MOVE_MOST * BLOCK / SECTOR], at, nr, i;
	uint64_t pos;
	size_t len;
	int fd, err;

	pick(h, &pos, &len, MOVE_MOST);
	nr = (uint32_t)(len / BLOCK);
	at = (uint32_t)below(&h->r, (DONOR_BLOCKS - nr) / grain + 1) * grain;
	sample(from, done, pos, len);
	fd = open_image(h, O_RDONLY);
	err = ret_close(fd, clone_to_donor(h, fd, pos, at, nr));
	if (err)
		return err;
	if (pread(h->donor.fd, h->other, len, (off_t)at * BLOCK) != (ssize_t)len)
		fail("read of the clone: %s", strerror(errno));
	for (i = 0; i < len / SECTOR; i++) {
		uint64_t s = pos / SECTOR + i;

		if (!is_right(h->other + i * SECTOR, s, from[i], issued[s], false))
			fail_sector("clone", h->other + i * SECTOR, s, from[i], issued[s]);
	}
	linger(h);
	if (pread(h->donor.fd, h->buf, len, (off_t)at * BLOCK) != (ssize_t)len)
		fail("read of the clone: %s", strerror(errno));
	for (i = 0; i < len / SECTOR; i++)
		if (memcmp(h->buf + i * SECTOR, h->other + i * SECTOR, SECTOR))
			fail("a clone of sector %ju of the device has changed since it was made, to %s", (uintmax_t)(pos / SECTOR + i),
			     whose(h->buf + i * SECTOR));
	donor_write(h, at, nr);
	return 0;
}

static int dedupe(int from, int to, uint64_t pos, size_t len)
{
	struct { struct file_dedupe_range range; struct file_dedupe_range_info info; } arg = {
		.range = { .src_length = len, .dest_count = 1 },
		.info = { .dest_fd = to, .dest_offset = pos },
	};

	if (ioctl(from, FIDEDUPERANGE, &arg))
		return -errno;
	if (arg.info.status < 0)
		return arg.info.status;
	return arg.info.status == FILE_DEDUPE_RANGE_SAME && arg.info.bytes_deduped == len ? 0 : -EBUSY;
}

/* xfs: the donor gets a share of the blocks, and the image others with the same content: they are the donor's alone. */
static int op_dedupe(struct hostile *h)
{
	uint32_t at, nr;
	uint64_t pos;
	size_t len;
	int fd, err;

	pick(h, &pos, &len, read_only ? MOVE_MOST : 8);
	nr = (uint32_t)(len / BLOCK);
	at = (uint32_t)below(&h->r, (DONOR_BLOCKS - nr) / grain + 1) * grain;
	donor_check(h, at, nr);
	fd = open_image(h, (read_only ? O_RDONLY : O_RDWR) | O_DIRECT);
	err = clone_to_donor(h, fd, pos, at, nr) ? -errno : 0;
	if (!err) {
		if (pread(fd, h->buf, len, (off_t)pos) != (ssize_t)len)
			fail("direct read of the file: %s", strerror(errno));
		full_write(h->copy, h->buf, len, 0, "a copy");
		err = dedupe(h->copy, fd, pos, len);
	}
	close(fd);
	donor_write(h, at, nr);
	/* Shared blocks are not mapped: let the image have them alone. */
	if (ftruncate(h->copy, 0) || ftruncate(h->copy, MOVE_MOST * BLOCK))
		fail("truncate of the copy: %s", strerror(errno));
	linger(h);
	donor_check(h, at, nr);
	return err;
}

/* xfs: all at once. Nobody may write meanwhile, that is the caller's to see to. */
static int op_exchange(struct hostile *h)
{
	struct { int32_t fd; uint32_t pad; uint64_t from, to, len, flags; } x = {};
	uint32_t chunk = (uint32_t)below(&h->r, chunks), nr = 1 + (uint32_t)below(&h->r, CHUNK / BLOCK), at;
	uint64_t pos = (uint64_t)chunk * CHUNK + BLOCK * below(&h->r, CHUNK / BLOCK - nr + 1);
	int fd, err;

	at = (uint32_t)below(&h->r, (DONOR_BLOCKS - nr) / grain + 1) * grain;
	donor_check(h, at, nr);
	chunk_take(chunk);
	fd = open_image(h, O_RDWR | O_DIRECT);
	if (pread(fd, h->buf, nr * BLOCK, (off_t)pos) != (ssize_t)(nr * BLOCK))
		fail("direct read of the file: %s", strerror(errno));
	full_write(h->donor.fd, h->buf, nr * BLOCK, (uint64_t)at * BLOCK, "the vulture's file");
	x.fd = h->donor.fd;
	x.from = (uint64_t)at * BLOCK;
	x.to = pos;
	x.len = nr * BLOCK;
	err = ret_close(fd, ioctl(fd, _IOW('X', 129, __typeof__(x)), &x));
	chunk_taken[chunk] = 0;
	donor_write(h, at, nr);
	linger(h);
	donor_check(h, at, nr);
	return err;
}

/* xfs: others' blocks become the image's. */
static int op_clone_in(struct hostile *h)
{
	struct file_clone_range range = { h->copy, 0, 0, 0 };
	size_t len;
	uint64_t pos = pick_sacrificed(h, &len, prot);
	int fd;

	if (len > MOVE_MOST * BLOCK)
		len = MOVE_MOST * BLOCK;
	stamp(h->buf, len, DONATED, 0, rnd(&h->r));
	full_write(h->copy, h->buf, len, 0, "a copy");
	range.src_length = len;
	range.dest_offset = pos;
	fd = open_image(h, O_RDWR);
	return ret_close(fd, ioctl(fd, FICLONERANGE, &range));
}

static int op_copy_range(struct hostile *h)
{
	int fd = open_image(h, O_RDWR);
	loff_t from = 0, to;
	uint64_t pos;
	size_t len;

	if (below(&h->r, 2)) {
		pick(h, &pos, &len, 16);
		from = (loff_t)pos;
		to = 0;
		return ret_close(fd, copy_file_range(fd, &from, h->copy, &to, len, 0));
	}
	to = (loff_t)pick_sacrificed(h, &len, others);
	if (len > 16 * BLOCK)
		len = 16 * BLOCK;
	stamp(h->buf, len, DONATED, 0, rnd(&h->r));
	full_write(h->copy, h->buf, len, 0, "a copy");
	return ret_close(fd, copy_file_range(h->copy, &from, fd, &to, len, 0));
}

static int op_sync(struct hostile *h)
{
	int fd;

	if (below(&h->r, 2))
		return syncfs(mount_fd) ? -errno : 0;
	fd = open_image(h, O_RDWR);
	return ret_close(fd, fsync(fd));
}

static int op_trim(struct hostile *h)
{
	struct fstrim_range range = { 0, UINT64_MAX, 0 };

	(void)h;
	return ioctl(mount_fd, FITRIM, &range) ? -errno : 0;
}

static int op_inode(struct hostile *h)
{
	int fd, flags = 0;
	char path[320];

	switch (below(&h->r, 4)) {
	case 0:
		return utimensat(AT_FDCWD, image, NULL, 0) ? -errno : 0;
	case 1:
		return chmod(image, 0600) ? -errno : 0;
	case 2:
		snprintf(path, sizeof(path), "%s/torture.link.%u", dir, h->id);
		return link(image, path) || unlink(path) ? -errno : 0;
	default:
		fd = open_image(h, O_RDONLY);
		if (ioctl(fd, FS_IOC_GETFLAGS, &flags))
			return ret_close(fd, -1);
		flags ^= FS_NODUMP_FL;
		return ret_close(fd, ioctl(fd, FS_IOC_SETFLAGS, &flags));
	}
}

static uint64_t disk_writes(void)
{
	unsigned long f[7] = {};
	FILE *file = fopen(disk_stat, "re");

	if (!file || fscanf(file, "%lu %lu %lu %lu %lu %lu %lu", f, f + 1, f + 2, f + 3, f + 4, f + 5, f + 6) != 7)
		fail("%s: unreadable", disk_stat);
	fclose(file);
	return f[6];
}

static int op_freeze(struct hostile *h)
{
	uint64_t before, after;

	if (ioctl(mount_fd, FIFREEZE, 0))
		return -errno;
	frozen = true;
	before = disk_writes();
	usleep((useconds_t)(5000 + below(&h->r, 30000) + slow * 3000));
	after = disk_writes();
	if (after != before)
		fail("%ju sectors were written to the disk of a frozen file system", (uintmax_t)(after - before));
	frozen = false;
	if (ioctl(mount_fd, FITHAW, 0))
		fail("thaw: %s", strerror(errno));
	/* Who was kept waiting comes first. */
	usleep(5000);
	return 0;
}

static int write_attr(const char *name, const char *value)
{
	char path[300];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", sysfs, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		fail("%s: %s", path, strerror(errno));
	return ret_close(fd, write(fd, value, strlen(value)));
}

static uint64_t read_attr(const char *name)
{
	char path[300], buf[64] = "";
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", sysfs, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, buf, sizeof(buf) - 1);
	if (n <= 0)
		fail("%s: %s", path, strerror(errno));
	close(fd);
	return strtoull(buf, NULL, 0);
}

static uint64_t read_stat(const char *name)
{
	uint64_t n;

	if (!loopstat(sysfs, name, &n))
		fail("%s/stat: no %s", sysfs, name);
	return n;
}

static int op_mapping(struct hostile *h)
{
	(void)h;
	write_attr("mapping", "0");
	return write_attr("mapping", "1");
}

static int op_status(struct hostile *h)
{
	int fd = open(device, O_RDONLY | O_CLOEXEC);
	struct loop_info64 info;

	if (fd < 0)
		fail("%s: %s", device, strerror(errno));
	if (below(&h->r, 2))
		return ret_close(fd, ioctl(fd, LOOP_SET_CAPACITY, 0));
	if (ioctl(fd, LOOP_GET_STATUS64, &info))
		return ret_close(fd, -1);
	return ret_close(fd, ioctl(fd, LOOP_SET_STATUS64, &info));
}

enum { ANY = 0, EXT4 = 1, XFS = 2, READS = 4 /* also on a read-only device */ };

static const struct op {
	const char *name;
	int (*run)(struct hostile *h);
	unsigned int weight, where;
} ops[] = {
	{ "open", op_open, 12, READS },
	{ "read", op_read, 6, READS },
	{ "read-direct", op_read_direct, 3, READS },
	{ "mmap-read", op_mmap_read, 3, READS },
	{ "truncate", op_truncate, 4, ANY },
	{ "ftruncate", op_ftruncate, 3, ANY },
	{ "hole", op_hole, 5, ANY },
	{ "prealloc", op_prealloc, 4, ANY },
	{ "shift", op_shift, 2, ANY },
	{ "mmap-write", op_mmap_write, 3, ANY },
	{ "move", op_move, 24, EXT4 },
	{ "clone", op_clone, 8, XFS | READS },
	{ "dedupe", op_dedupe, 12, XFS | READS },
	{ "exchange", op_exchange, 8, XFS },
	{ "clone-in", op_clone_in, 3, XFS },
	{ "copy-range", op_copy_range, 3, ANY },
	{ "sync", op_sync, 1, READS },
	{ "trim", op_trim, 1, READS },
	{ "inode", op_inode, 3, READS },
	{ "freeze", op_freeze, 1, READS },
	{ "mapping", op_mapping, 1, READS },
	{ "status", op_status, 1, READS },
};

#define OPS (sizeof(ops) / sizeof(*ops))

static struct { atomic_ulong ok, failed; atomic_int last; } counts[OPS];
static atomic_ulong operations;

static unsigned int pick_op(struct rng *r, unsigned int mask)
{
	unsigned int sum = 0, i;
	uint64_t n;

	for (i = 0; i < OPS; i++)
		if (mask & 1U << i)
			sum += ops[i].weight;
	n = below(r, sum);
	for (i = 0; i < OPS; i++) {
		if (!(mask & 1U << i))
			continue;
		if (n < ops[i].weight)
			break;
		n -= ops[i].weight;
	}
	return i;
}

static void *hostile_thread(void *arg)
{
	struct hostile h = { .id = (unsigned int)(uintptr_t)arg };
	unsigned int mask, i;
	int err;

	h.r.state = mix(seed * 100 + 200 + h.id);
	h.task = task_new("hostile", h.id);
	h.buf = aligned(BUF);
	h.other = aligned(BUF);
	h.copy = make_file("copy", h.id, 0);
	h.donor.fd = make_file("donor", h.id, O_DIRECT);
	h.donor.id = 1000 + h.id;
	if (ftruncate(h.copy, MOVE_MOST * BLOCK))
		fail("truncate: %s", strerror(errno));
	doing(h.task, "preparing");
	donor_write(&h, 0, DONOR_BLOCKS);
	fsync(h.donor.fd);
	h.task->doing = NULL;

	while (!stopping) {
		busy++;
		mask = open_ops;
		if (!mask) {
			busy--;
			usleep(1000);
			continue;
		}
		i = pick_op(&h.r, mask);
		doing(h.task, ops[i].name);
		err = ops[i].run(&h);
		h.task->doing = NULL;
		if (err) {
			counts[i].failed++;
			counts[i].last = -err;
		} else {
			counts[i].ok++;
		}
		operations++;
		busy--;
	}
	doing(h.task, "the last look at the donor");
	donor_check(&h, 0, DONOR_BLOCKS);
	h.task->doing = NULL;
	return NULL;
}

/* The vulture: takes what is freed, and looks that it stays its own. */
static void *vulture_thread(void *arg)
{
	uint32_t len[CARCASSES] = {}, gen[CARCASSES] = {}, i, s;
	struct rng r = { mix(seed * 100 + 99) };
	struct task *t = task_new("vulture", 0);
	uint8_t *buf = aligned(BUF);
	char path[320];
	int fd;

	(void)arg;
	while (!stopping) {
		struct statfs fs;
		ssize_t n;

		i = (uint32_t)below(&r, CARCASSES);
		snprintf(path, sizeof(path), "%s/torture.vulture.%u", dir, i);
		doing(t, "taking what is freed");
		if (!len[i]) {
			if (fstatfs(mount_fd, &fs))
				fail("statfs: %s", strerror(errno));
			if ((uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize < RESERVE) {
				/* Let one go for the next. */
				while (!len[i])
					i = (i + 1) % CARCASSES;
				snprintf(path, sizeof(path), "%s/torture.vulture.%u", dir, i);
			} else {
				len[i] = BLOCK * (1 + (uint32_t)below(&r, 128));
				gen[i]++;
				fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_DIRECT | O_CLOEXEC, 0600);
				if (fd < 0)
					fail("%s: %s", path, strerror(errno));
				stamp(buf, len[i], VULTURE, (uint64_t)i << 32, gen[i]);
				n = pwrite(fd, buf, len[i], 0);
				if (n != (ssize_t)len[i]) {
					if (n < 0 && errno != ENOSPC)
						fail("%s: %s", path, strerror(errno));
					len[i] = n > 0 ? (uint32_t)n & ~(BLOCK - 1) : 0;
				}
				if (below(&r, 2))
					fsync(fd);
				close(fd);
				kept_bytes += len[i];
				t->doing = NULL;
				usleep((useconds_t)below(&r, 20000));
				continue;
			}
		}
		fd = open(path, O_RDWR | O_DIRECT | O_CLOEXEC);
		if (fd < 0 || pread(fd, buf, len[i], 0) != (ssize_t)len[i])
			fail("read of the vulture's %s: %s", path, strerror(errno));
		for (s = 0; s < len[i] / SECTOR; s++)
			if (!is_stamp(buf + s * SECTOR, VULTURE, (uint64_t)i << 32 | s, gen[i]))
				fail("the vulture's file %u, sector %u: expected its generation %u, found %s: a write that landed in another's block",
				     i, s, gen[i], whose(buf + s * SECTOR));
		close(fd);
		if (below(&r, 3)) {
			unlink(path);
			len[i] = 0;
		}
		t->doing = NULL;
		usleep((useconds_t)below(&r, 10000));
	}
	return NULL;
}

static void *watchdog_thread(void *arg)
{
	(void)arg;
	for (;;) {
		double now = seconds();
		int i;

		for (i = 0; i < nr_tasks; i++) {
			const char *what = tasks[i].doing;

			if (!what || now - tasks[i].since < patience)
				continue;
			printf("hanging:\n");
			say_stacks();
			fail("%s: %s: hangs for %.0f s", tasks[i].name, what, now - tasks[i].since);
		}
		usleep(200000);
	}
	return NULL;
}

/* Wait until @enough of the image is mapped. */
static void wait_mapped(uint64_t enough)
{
	double start = seconds(), ask = start + 0.15, now;

	calm = true;
	while ((now = seconds()) < start + 1.5 && !(read_attr("mapped") && read_stat("mapped_bytes") >= enough)) {
		/* It waits longer and longer to try again; from the start, it doesn't. */
		if (now > ask && !read_attr("mapped")) {
			write_attr("mapping", "0");
			write_attr("mapping", "1");
			ask = start + 10;
		}
		usleep(2000);
	}
	calm = false;
	waited_to_map += seconds() - start;
}

/* Leave the image alone until it is mapped and that has been of use, then let go of them. */
static void burst(struct rng *r, unsigned int allowed)
{
	uint64_t mapped, ios, most;
	double start;
	bool few;

	/* At times in the middle of being mapped. */
	wait_mapped(at_once ? 0 : below(r, 4) ? size / 4 : below(r, 2));
	mapped = read_stat("ios_mapped");
	ios = !at_once && below(r, 5) ? below(r, 60) : 0;
	for (start = seconds(); read_stat("ios_mapped") < mapped + ios && seconds() < start + 0.2;)
		usleep(1000);

	/* Two times in three one thing only, and nothing that breaks the lease before it. */
	few = broken_rules || below(r, 5);
	most = operations + 1 + below(r, few ? 16 : 1000);
	open_ops = below(r, 3) ? 1U << pick_op(r, allowed) : allowed;
	for (start = seconds(); operations < most && seconds() < start + (few ? 0.3 : 3);)
		usleep(500);
	open_ops = 0;
	bursts++;
	start = seconds();
	while (busy > 0)
		usleep(500);
	waited_to_end += seconds() - start;
}

/* All of the protected range, by the device and by its file. */
static void last_look(const char *path, uint8_t *buf)
{
	int fd = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
	uint64_t pos, i;

	if (fd < 0)
		fail("%s: %s", path, strerror(errno));
	for (pos = 0; pos < prot; pos += CHUNK) {
		if (pread(fd, buf, CHUNK, (off_t)pos) != CHUNK)
			fail("request error: read of %s at %ju: %s", path, (uintmax_t)pos, strerror(errno));
		for (i = 0; i < CHUNK / SECTOR; i++) {
			uint64_t s = pos / SECTOR + i;

			if (!is_right(buf + i * SECTOR, s, done[s], done[s], false))
				fail_sector(path, buf + i * SECTOR, s, done[s], done[s]);
		}
	}
	close(fd);
}

static void prepare_image(uint8_t *buf)
{
	int fd = open(image, O_RDWR | O_CREAT | O_TRUNC | O_DIRECT | O_CLOEXEC, 0600);
	uint64_t pos;

	if (fd < 0)
		die("%s: %s", image, strerror(errno));
	for (pos = 0; pos < size; pos += CHUNK) {
		stamp(buf, CHUNK, pos < prot ? PROTECTED : SACRIFICED, pos / SECTOR, 2);
		if (pwrite(fd, buf, CHUNK, (off_t)pos) != CHUNK)
			die("%s: %s", image, strerror(errno));
	}
	if (ftruncate(fd, (off_t)(size + TAIL)) || fsync(fd))
		die("%s: %s", image, strerror(errno));
	close(fd);
}

static unsigned int parse_ops(char *list)
{
	unsigned int mask = 0, i;
	char *name;

	for (name = strtok(list, ","); name; name = strtok(NULL, ",")) {
		for (i = 0; i < OPS && strcmp(name, ops[i].name); i++)
			;
		if (i == OPS)
			die("torture: no operation is called %s", name);
		mask |= 1U << i;
	}
	return mask;
}

static void find_out(void)
{
	const char *slash = strrchr(image, '/');
	int mount_id, fd;
	struct stat st;

	snprintf(dir, sizeof(dir), "%.*s", slash ? (int)(slash - image) : 1, slash ? image : ".");
	mount_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	handle = malloc(sizeof(*handle) + MAX_HANDLE_SZ);
	if (mount_fd < 0 || !handle)
		die("%s: %s", dir, strerror(errno));
	handle->handle_bytes = MAX_HANDLE_SZ;
	if (name_to_handle_at(AT_FDCWD, image, handle, &mount_id, 0) || stat(image, &st))
		die("%s: %s", image, strerror(errno));
	snprintf(disk_stat, sizeof(disk_stat), "/sys/dev/block/%u:%u/stat", major(st.st_dev), minor(st.st_dev));
	snprintf(sysfs, sizeof(sysfs), "/sys/block/%s/loop", strrchr(device, '/') + 1);
	fd = open(device, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || ioctl(fd, BLKGETSIZE64, &size) || ioctl(fd, BLKSSZGET, &sector_size))
		die("%s: %s", device, strerror(errno));
	close(fd);
}

static void report(double took, const uint64_t *before)
{
	uint64_t mapped = read_stat("ios_mapped") - before[0], file = read_stat("ios_file") - before[1];
	unsigned int i;

	printf("%.1f s: %lu hostile operations (%.0f a second) in %lu bursts; epochs: %ju begun, %ju broken\n", took, operations,
	       (double)operations / took, bursts, (uintmax_t)(read_stat("epochs_begun") - before[2]),
	       (uintmax_t)(read_stat("epochs_broken") - before[3]));
	printf("I/O: %lu reads, %lu writes (%lu FUA), %lu flushes, %lu discards, %lu NOWAIT (%lu again), %.0f a second; mapped %ju, by the file %ju: %ju%%\n",
	       reads, writes, fuas, flushes, discards, nowaits, agains, (double)(reads + writes + flushes + discards) / took,
	       (uintmax_t)mapped, (uintmax_t)file, (uintmax_t)(mapped * 100 / (mapped + file + 1)));
	printf("waited %.1f s for the image to be mapped, %.1f s for operations to end\n", waited_to_map, waited_to_end);
	printf("the vulture wrote %lu MiB; a cached page was older than the disk for a moment: %lu times; no space at once: %lu times\n",
	       kept_bytes >> 20, stale_for_a_moment, no_space);
	for (i = 0; i < OPS; i++)
		if (counts[i].ok || counts[i].failed)
			printf("  %-12s %8lu ok %8lu failed%s%s\n", ops[i].name, counts[i].ok, counts[i].failed,
			       counts[i].failed ? ", the last: " : "", counts[i].failed ? strerrorname_np(counts[i].last) : "");
	fflush(stdout);
	if (!broken_rules && (!mapped || read_stat("epochs_broken") == before[3]))
		fail("nothing was mapped, or nothing broken: such a run shows nothing");
}

int main(int argc, char **argv)
{
	static const char usage[] =
		"torture -i [-s SEED] IMAGE SIZE\n"
		"torture [-s SEED] [-t SECONDS] [-n OPERATIONS] [-j THREADS] [-x THREADS] [-q DEPTH] [-g BLOCKS] [-w MS] [-W SECONDS] [-k OP,OP..] [-K OP,OP..] [-d DISCARDS] [-e] [-r] [-b] DEVICE IMAGE";
	unsigned int allowed = 0, without = 0, i, nr = 0;
	uint64_t limit = 20, most = UINT64_MAX, before[4];
	pthread_t threads[64], watchdog, last[20];
	unsigned int nr_last = 0;
	bool init = false;
	struct statfs fs;
	struct rng r;
	double begin;
	int opt;

	while ((opt = getopt(argc, argv, "is:t:n:j:x:q:g:w:W:k:K:d:erb")) != -1) {
		switch (opt) {
		case 'i': init = true; break;
		case 's': seed = strtoull(optarg, NULL, 0); break;
		case 't': limit = strtoull(optarg, NULL, 0); break;
		case 'n': most = strtoull(optarg, NULL, 0); break;
		case 'j': jobs = (unsigned int)atoi(optarg); break;
		case 'x': hostiles = (unsigned int)atoi(optarg); break;
		case 'q': depth = (unsigned int)atoi(optarg); break;
		case 'g': grain = (unsigned int)atoi(optarg); break;
		case 'w': slow = (unsigned int)atoi(optarg); break;
		case 'W': patience = (unsigned int)atoi(optarg); break;
		case 'K': without = parse_ops(optarg); break;
		case 'k': allowed = parse_ops(optarg); break;
		case 'd': discards_of_1000 = (unsigned int)atoi(optarg); break;
		case 'r': read_only = true; break;
		case 'e': at_once = true; break;
		case 'b': broken_rules = true; break;
		default: die("%s", usage);
		}
	}
	if (optind + 2 != argc || !jobs || jobs > 16 || hostiles > 16 || !grain || grain > 16 || !depth || depth > DEPTH_MOST)
		die("%s", usage);
	run = mix(seed);
	if (init) {
		image = argv[optind];
		size = bytes(argv[optind + 1]) / CHUNK * CHUNK;
	} else {
		device = argv[optind];
		image = argv[optind + 1];
		find_out();
	}
	prot = size / 4 * 3 / CHUNK * CHUNK;
	others = size - (size - prot) / 4 / CHUNK * CHUNK;
	if (init) {
		prepare_image(aligned(CHUNK));
		return 0;
	}

	chunks = (unsigned int)(prot / CHUNK);
	done = malloc(prot / SECTOR * sizeof(*done));
	issued = malloc(prot / SECTOR * sizeof(*issued));
	chunk_users = calloc(chunks, sizeof(*chunk_users));
	chunk_taken = calloc(chunks, sizeof(*chunk_taken));
	if (!done || !issued || !chunk_users || !chunk_taken || chunks < jobs)
		die("no memory, or too small a device");
	for (i = 0; i < prot / SECTOR; i++) {
		done[i] = 2;
		issued[i] = 2;
	}
	if (fstatfs(mount_fd, &fs))
		die("%s: %s", dir, strerror(errno));
	if (!allowed)
		allowed = ~0U;
	for (i = 0; i < OPS; i++) {
		unsigned int here = fs.f_type == 0xef53 ? EXT4 : XFS, only = ops[i].where & (EXT4 | XFS);

		if ((only && !(only & here)) || (read_only && !(ops[i].where & READS)))
			allowed &= ~(1U << i);
	}
	allowed &= ((1U << OPS) - 1) & ~without;
	if (!allowed)
		die("torture: none of these operations can be had here");

	r.state = mix(seed * 100 + 55);
	before[0] = read_stat("ios_mapped");
	before[1] = read_stat("ios_file");
	before[2] = read_stat("epochs_begun");
	before[3] = read_stat("epochs_broken");
	begin = seconds();
	pthread_create(&watchdog, NULL, watchdog_thread, NULL);
	for (i = 0; i < jobs; i++)
		pthread_create(&last[nr_last++], NULL, io_thread, (void *)(uintptr_t)i);
	pthread_create(&last[nr_last++], NULL, sacrifice_thread, NULL);
	for (i = 0; i < hostiles; i++)
		pthread_create(&threads[nr++], NULL, hostile_thread, (void *)(uintptr_t)i);
	pthread_create(&threads[nr++], NULL, vulture_thread, NULL);
	while (seconds() - begin < (double)limit && operations < most)
		burst(&r, allowed);
	stopping = true;
	while (nr)
		pthread_join(threads[--nr], NULL);
	leaving = true;
	while (nr_last)
		pthread_join(last[--nr_last], NULL);

	last_look(device, aligned(CHUNK));
	last_look(image, aligned(CHUNK));
	report(seconds() - begin, before);
	return 0;
}
