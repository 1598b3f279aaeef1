// SPDX-License-Identifier: GPL-2.0
/*
 * The vulture takes what the image gives up: files of its own hold the blocks
 * that the image had, and have to stay what they are.
 */
#include <sys/statfs.h>

#include "torture.h"

#define RESERVE (40U << 20)	/* of the file system, that is left free */
#define CARCASSES 96U

static uint64_t donor_place(struct donor *d, uint32_t block)
{
	return (uint64_t)d->id << 32 | block * (BLOCK / SECTOR);
}

void donor_write(struct hostile *h, uint32_t first, uint32_t nr)
{
	struct donor *d = &h->donor;
	uint32_t i;

	for (i = 0; i < nr; i++)
		stamp(h->buf + i * BLOCK, BLOCK, VULTURE,
		      donor_place(d, first + i), ++d->gen[first + i]);
	full_write(d->fd, h->buf, nr * BLOCK, (uint64_t)first * BLOCK,
		   "the vulture's file");
	kept_bytes += nr * BLOCK;
}

void donor_check(struct hostile *h, uint32_t first, uint32_t nr)
{
	struct donor *d = &h->donor;
	uint32_t i, s;

	if (pread(d->fd, h->buf, nr * BLOCK, (off_t)first * BLOCK) !=
	    (ssize_t)(nr * BLOCK))
		fail("read of the vulture's file: %s", strerror(errno));
	for (i = 0; i < nr; i++)
		for (s = 0; s < BLOCK / SECTOR; s++) {
			uint8_t *p = h->buf + i * BLOCK + s * SECTOR;
			uint64_t place = donor_place(d, first + i) + s;

			if (!is_stamp(p, VULTURE, place, d->gen[first + i]))
				fail("the vulture's file %u, sector %ju: expected its generation %u, found %s: a write that landed in another's block",
				     d->id, (uintmax_t)(place & 0xffffffff),
				     d->gen[first + i], whose(p));
		}
}

/* A file of the vulture's, which keeps what was written; @len 0: no file */
struct carcass {
	uint32_t len, gen;
};

static void carcass_path(char *path, size_t len, uint32_t i)
{
	snprintf(path, len, "%s/torture.vulture.%u", dir, i);
}

static void carcass_write(struct carcass *c, uint32_t i, struct rng *r,
			  uint8_t *buf)
{
	int flags = O_RDWR | O_CREAT | O_TRUNC | O_DIRECT | O_CLOEXEC, fd;
	char path[320];
	ssize_t n;

	carcass_path(path, sizeof(path), i);
	c->len = BLOCK * (1 + (uint32_t)below(r, 128));
	c->gen++;
	fd = open(path, flags, 0600);
	if (fd < 0)
		fail("%s: %s", path, strerror(errno));
	stamp(buf, c->len, VULTURE, (uint64_t)i << 32, c->gen);
	n = pwrite(fd, buf, c->len, 0);
	if (n < 0 && errno != ENOSPC)
		fail("%s: %s", path, strerror(errno));
	if (n != (ssize_t)c->len)
		c->len = n > 0 ? (uint32_t)n & ~(BLOCK - 1) : 0;
	if (below(r, 2))
		fsync(fd);
	close(fd);
	kept_bytes += c->len;
}

static void carcass_check(struct carcass *c, uint32_t i, uint8_t *buf)
{
	char path[320];
	uint32_t s;
	int fd;

	carcass_path(path, sizeof(path), i);
	fd = open(path, O_RDWR | O_DIRECT | O_CLOEXEC);
	if (fd < 0 || pread(fd, buf, c->len, 0) != (ssize_t)c->len)
		fail("read of the vulture's %s: %s", path, strerror(errno));
	for (s = 0; s < c->len / SECTOR; s++)
		if (!is_stamp(buf + s * SECTOR, VULTURE, (uint64_t)i << 32 | s,
			      c->gen))
			fail("the vulture's file %u, sector %u: expected its generation %u, found %s: a write that landed in another's block",
			     i, s, c->gen, whose(buf + s * SECTOR));
	close(fd);
}

static bool is_room(void)
{
	struct statfs fs;

	if (fstatfs(mount_fd, &fs))
		fail("statfs: %s", strerror(errno));
	return (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize >= RESERVE;
}

/* Takes what is freed, and checks that it stays its own. */
void *vulture_thread(void *arg)
{
	static struct carcass all[CARCASSES];
	struct rng r = {  mix(seed * 100 + 99)  };
	struct task *t = task_new("vulture", 0);
	uint8_t *buf = aligned(BUF);
	char path[320];
	uint32_t i;

	(void)arg;
	while (!stopping) {
		i = (uint32_t)below(&r, CARCASSES);
		doing(t, "taking what is freed");
		if (!all[i].len && is_room()) {
			carcass_write(&all[i], i, &r, buf);
			t->doing = NULL;
			usleep((useconds_t)below(&r, 20000));
			continue;
		}
		/* Without room one has to go for the next. */
		while (!all[i].len)
			i = (i + 1) % CARCASSES;
		carcass_check(&all[i], i, buf);
		if (below(&r, 3)) {
			carcass_path(path, sizeof(path), i);
			unlink(path);
			all[i].len = 0;
		}
		t->doing = NULL;
		usleep((useconds_t)below(&r, 10000));
	}
	return NULL;
}
