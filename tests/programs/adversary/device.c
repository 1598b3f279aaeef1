// SPDX-License-Identifier: GPL-2.0
/* The device in use, and root's files around its image. */
#include <linux/fs.h>
#include <linux/loop.h>
#include <sys/resource.h>
#include <sys/uio.h>

#include "adversary.h"

#define CARCASSES 160U
#define MOST_BLOCKS 64U		/* of each */
#define RESERVE (16U << 20)	/* of the file system, that is left free */
#define THREADS 4U

atomic_ulong reads, writes, flushes, discards, cut_short, kept_bytes, no_space;
atomic_bool device_stopping;

struct device_thread {
	struct rng r;
	struct task *task;
	uint8_t *buf;
	uint32_t id, gen;
	int fd;
};

/*
 * Anything of those who write there, but nobody else's. A stamp may have been
 * zeroed from its second word on.
 */
static void check_sacrificed(const uint8_t *buf, uint64_t pos, size_t len)
{
	size_t at;

	for (at = 0; at < len; at += SECTOR) {
		const uint64_t *w = (const void *)(buf + at);

		if (w[0] &&
		    ((w[1] && w[1] != run) || (w[0] != (MAGIC | SACRIFICED) &&
					       w[0] != (MAGIC | DONATED))))
			fail("read of the device: sacrificed sector %ju holds what is foreign: %s",
			     (uintmax_t)((pos + at) / SECTOR), whose(w));
	}
}

/* Freed blocks aren't always available at once. */
static ssize_t device_io(struct device_thread *t, bool write, uint64_t pos,
			 size_t len, int flags)
{
	struct iovec iov = { t->buf, len };
	ssize_t n;
	int i;

	for (i = 0; i < 250; i++) {
		n = write ? pwritev2(t->fd, &iov, 1, (off_t)pos, flags) :
			    preadv2(t->fd, &iov, 1, (off_t)pos, flags);
		if (n >= 0 || errno != ENOSPC)
			break;
		no_space++;
		usleep(20000);
	}
	return n;
}

static void device_range(struct device_thread *t, uint64_t from, uint64_t to,
			 uint64_t *pos, size_t *len)
{
	uint32_t unit = sector_size == SECTOR && !below(&t->r, 4) ? SECTOR :
								   BLOCK;
	uint64_t most = (to - from) / unit;
	uint64_t nr = 1 + below(&t->r, below(&t->r, 4) ? 2 : 16);

	if (nr > most)
		nr = most;
	*pos = from + below(&t->r, most - nr + 1) * unit;
	*len = nr * unit;
}

static void device_sacrificed(struct device_thread *t)
{
	bool write = below(&t->r, 2);
	unsigned long cuts = arena->cuts;
	uint64_t pos;
	size_t len;
	ssize_t n;

	/* Don't write directly where the page cache is dirty. */
	device_range(t, place.prot, write ? place.cached : place.size, &pos,
		     &len);
	if (write)
		stamp(t->buf, len, SACRIFICED, pos / SECTOR, t->gen * 2);
	n = device_io(t, write, pos, len, 0);
	if (n == (ssize_t)len) {
		if (!write)
			check_sacrificed(t->buf, pos, len);
		(*(write ? &writes : &reads))++;
		return;
	}
	if (pos + len > place.cut && (arena->cutting || arena->cuts != cuts) &&
	    (n >= 0 || errno == EIO)) {
		cut_short++;
		return;
	}
	fail("request error: %s of %zu bytes of the device at %ju, sacrificed: %s",
	     write ? "write" : "read", len, (uintmax_t)pos,
	     n < 0 ? strerror(errno) : "cut short");
}

static void device_discard(struct device_thread *t, uint64_t from)
{
	uint32_t first = (uint32_t)below(&t->r, CHUNK / BLOCK);
	uint32_t nr = 1 + (uint32_t)below(&t->r, CHUNK / BLOCK - first), i;
	uint64_t range[2] = { from + first * BLOCK, nr * BLOCK };
	uint64_t s = range[0] / SECTOR;
	unsigned long cmd = below(&t->r, 3) ? BLKDISCARD : BLKZEROOUT;

	for (i = 0; i < nr * BLOCK / SECTOR; i++)
		arena->issued[s + i] = t->gen * 2 + 1;
	for (i = 0; ioctl(t->fd, cmd, range); i++) {
		if (errno != ENOSPC || i == 250)
			fail("request error: discard of the device at %ju: %s",
			     (uintmax_t)range[0], strerror(errno));
		usleep(20000);
	}
	for (i = 0; i < nr * BLOCK / SECTOR; i++)
		arena->done[s + i] = t->gen * 2 + 1;
	discards++;
}

static void device_write(struct device_thread *t, uint64_t pos, size_t len)
{
	uint64_t s = pos / SECTOR;
	size_t i;

	stamp(t->buf, len, PROTECTED, s, t->gen * 2);
	for (i = 0; i < len / SECTOR; i++)
		arena->issued[s + i] = t->gen * 2;
	if (device_io(t, true, pos, len, below(&t->r, 10) ? 0 : RWF_DSYNC) !=
	    (ssize_t)len)
		fail("request error: write of %zu bytes to the device at %ju: %s",
		     len, (uintmax_t)pos, strerror(errno));
	for (i = 0; i < len / SECTOR; i++)
		arena->done[s + i] = t->gen * 2;
	writes++;
}

static void device_step(struct device_thread *t)
{
	uint32_t chunks = (uint32_t)(place.prot / CHUNK), chunk;
	unsigned int kind = (unsigned int)below(&t->r, 1000);
	uint64_t from, pos;
	size_t len;

	t->gen++;
	if (kind < 20) {
		doing(t->task, "flush");
		if (fsync(t->fd))
			fail("request error: flush of the device: %s",
			     strerror(errno));
		flushes++;
		return;
	}
	if (kind < 250) {
		doing(t->task, "I/O to the sacrificed range");
		device_sacrificed(t);
		return;
	}
	chunk = t->id + THREADS * (uint32_t)below(&t->r, chunks / THREADS);
	from = (uint64_t)chunk * CHUNK;
	device_range(t, from, from + CHUNK, &pos, &len);
	if (kind < 600) {
		doing(t->task, "read of the device");
		memset(t->buf, 0x5a, len);
		if (device_io(t, false, pos, len, 0) != (ssize_t)len)
			fail("request error: read of %zu bytes of the device at %ju: %s",
			     len, (uintmax_t)pos, strerror(errno));
		check_protected("read of the device", t->buf, pos, len,
				arena->done);
		reads++;
		return;
	}
	/* An adversary that takes it expects to know what is there. */
	if (atomic_exchange(&arena->taken[chunk], 1))
		return;
	doing(t->task, kind < 603 ? "discard" : "write to the device");
	if (kind < 603)
		device_discard(t, from);
	else
		device_write(t, pos, len);
	arena->taken[chunk] = 0;
}

void *device_thread(void *arg)
{
	struct device_thread *t = arg;

	/* CPUs are few: adversaries come first. */
	t->task->tid = (pid_t)syscall(SYS_gettid);
	setpriority(PRIO_PROCESS, (id_t)t->task->tid, 10);
	while (!device_stopping) {
		device_step(t);
		t->task->doing = NULL;
		usleep((useconds_t)below(&t->r, 1000));
	}
	return NULL;
}

/* All threads of the device, as long as it is attached */
static struct device_thread threads[THREADS];
static pthread_t ids[THREADS];

static void threads_begin(void)
{
	unsigned int i;

	device_stopping = false;
	for (i = 0; i < THREADS; i++) {
		struct device_thread *t = &threads[i];

		if (!t->buf) {
			t->id = i;
			t->gen = 1;
			t->r.state = mix(seed * 100 + i);
			t->buf = aligned(CHUNK);
			t->task = task_new("I/O", i);
		}
		t->fd = open(device, O_RDWR | O_DIRECT | O_CLOEXEC);
		if (t->fd < 0)
			fail("%s: %s", device, strerror(errno));
		pthread_create(&ids[i], NULL, device_thread, t);
	}
}

static void threads_end(void)
{
	unsigned int i;

	device_stopping = true;
	for (i = 0; i < THREADS; i++) {
		pthread_join(ids[i], NULL);
		close(threads[i].fd);
	}
}

static uint64_t device_size(int dev)
{
	uint64_t size;

	if (ioctl(dev, BLKGETSIZE64, &size))
		fail("%s: %s", device, strerror(errno));
	return size;
}

/* The image may have been short when it was attached. */
void device_capacity(void)
{
	int dev = open(device, O_RDWR | O_CLOEXEC);

	if (dev < 0)
		fail("%s: %s", device, strerror(errno));
	if (device_size(dev) != place.size && ioctl(dev, LOOP_SET_CAPACITY, 0))
		fail("LOOP_SET_CAPACITY: %s", strerror(errno));
	if (device_size(dev) != place.size)
		fail("the device has %ju bytes", (uintmax_t)device_size(dev));
	close(dev);
	threads_begin();
}

void device_attach(void)
{
	struct loop_config config = { .block_size = sector_size };
	int fd = open(image, O_RDWR | O_CLOEXEC), dev, i;

	config.fd = (uint32_t)fd;
	config.info.lo_flags = LO_FLAGS_DIRECT_IO;
	config.info.lo_sizelimit = place.size;
	if (fd < 0)
		fail("%s: %s", image, strerror(errno));
	for (i = 0; i < 3000; i++) {
		dev = open(device, O_RDWR | O_CLOEXEC);
		if (dev < 0)
			fail("%s: %s", device, strerror(errno));
		if (!ioctl(dev, LOOP_CONFIGURE, &config))
			break;
		if (errno != EBUSY)
			fail("LOOP_CONFIGURE: %s", strerror(errno));
		close(dev);
		usleep(10000);
	}
	if (i == 3000)
		fail("%s: in use", device);
	close(dev);
	close(fd);
}

void device_detach(void)
{
	struct loop_info64 info;
	int dev, i, err = 0;

	threads_end();
	dev = open(device, O_RDWR | O_CLOEXEC);
	if (dev < 0 || ioctl(dev, LOOP_CLR_FD))
		fail("LOOP_CLR_FD: %s", strerror(errno));
	close(dev);
	for (i = 0; i < 3000 && !err; i++) {
		dev = open(device, O_RDWR | O_CLOEXEC);
		if (dev < 0)
			fail("%s: %s", device, strerror(errno));
		err = ioctl(dev, LOOP_GET_STATUS64, &info);
		close(dev);
		usleep(err ? 0 : 10000);
	}
	if (!err)
		fail("%s: still attached", device);
}

static void carcass_path(char *path, size_t len, uint32_t i)
{
	snprintf(path, len, "%s/root/%u", dir, i);
}

/* Takes what is freed, and checks that it stays root's. */
void *vulture_thread(void *arg)
{
	static struct carcass all[CARCASSES];
	struct rng r = { mix(seed * 100 + 99) };
	struct task *t = arg;
	uint8_t *buf = aligned(BUF);
	char path[280];
	uint32_t i;

	t->tid = (pid_t)syscall(SYS_gettid);
	while (!arena->stopping) {
		i = (uint32_t)below(&r, CARCASSES);
		carcass_path(path, sizeof(path), i);
		doing(t, "root's files");
		if (!all[i].len) {
			if (is_room(RESERVE))
				carcass_write(&all[i], path, i, MOST_BLOCKS,
					      &r, buf);
		} else {
			carcass_check(&all[i], path, "root", i, buf);
			if (below(&r, 3)) {
				unlink(path);
				all[i].len = 0;
			}
		}
		t->doing = NULL;
		usleep((useconds_t)below(&r, 8000));
	}
	for (i = 0; i < CARCASSES; i++) {
		carcass_path(path, sizeof(path), i);
		if (all[i].len)
			carcass_check(&all[i], path, "root", i, buf);
	}
	return NULL;
}
