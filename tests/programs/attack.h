/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the programs torture and adversary share: what their threads are doing,
 * the device's sysfs folder, operations on files that others don't have, what
 * the image holds, and files around it that keep what they hold.
 */
#ifndef TESTS_ATTACK_H
#define TESTS_ATTACK_H

#include <fcntl.h>
#include <linux/fs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/types.h>

#include "common.h"
#include "loopstat.h"
#include "stamp.h"

#define BLOCK 4096U		/* a multiple of any file system's block */
#define CHUNK (64U << 10)	/* written by one thread of the device's */
#define TAIL (1U << 20)		/* of the image, behind the device's end */
#define BUF (1U << 20)
#define DONOR_MOST 128U		/* blocks */

/* Of the program: its device's loop/ in sysfs, and the image's file system */
extern char sysfs[256];
extern int mount_fd;

/* Of the program: how often space was late, and what files of its own got */
extern atomic_ulong no_space, kept_bytes;

/* Of the program: report an error, and end all of it */
__attribute__((format(printf, 1, 2), noreturn))
void fail(const char *fmt, ...);

/* Of the program: its operations, of which it picks more of more weight */
extern unsigned int nr_ops;
const char *op_name(unsigned int op);
unsigned int op_weight(unsigned int op);

/* One of those in @mask; nr_ops if there is none */
static inline unsigned int pick_op(struct rng *r, uint64_t mask)
{
	unsigned int sum = 0, i;
	uint64_t n;

	for (i = 0; i < nr_ops; i++)
		if (mask & 1ULL << i)
			sum += op_weight(i);
	n = below(r, sum);
	for (i = 0; i < nr_ops; i++) {
		if (!(mask & 1ULL << i))
			continue;
		if (n < op_weight(i))
			break;
		n -= op_weight(i);
	}
	return i;
}

/* A bit for each operation of a list: OP,OP.. */
static inline uint64_t parse_ops(char *list)
{
	uint64_t mask = 0;
	unsigned int i;
	char *name;

	for (name = strtok(list, ","); name; name = strtok(NULL, ",")) {
		for (i = 0; i < nr_ops && strcmp(name, op_name(i)); i++)
			;
		if (i == nr_ops)
			die("no operation is called %s", name);
		mask |= 1ULL << i;
	}
	return mask;
}

/* The state of a thread, for the watchdog */
struct task {
	char name[24];
	_Atomic(const char *) doing;
	_Atomic double since;
	pid_t tid;
};

static inline void task_begin(struct task *t, const char *name,
			      unsigned int id)
{
	snprintf(t->name, sizeof(t->name), "%s %u", name, id);
	t->tid = (pid_t)syscall(SYS_gettid);
	t->doing = NULL;
}

static inline void doing(struct task *t, const char *what)
{
	t->since = seconds();
	t->doing = what;
}

/* Where it waits in the kernel */
static inline void say_stack(const struct task *t)
{
	char path[64], buf[4096];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stack", t->tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, buf, sizeof(buf));
	if (n > 0)
		printf("%.*s", (int)n, buf);
	if (fd >= 0)
		close(fd);
}

/* 0 or -errno, as operations return it */
static inline int ret(long n)
{
	return n < 0 ? -errno : 0;
}

static inline int ret_close(int fd, long n)
{
	int err = ret(n);

	close(fd);
	return err;
}

static inline uint64_t read_attr(const char *name)
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

static inline uint64_t read_stat(const char *name)
{
	uint64_t n;

	if (!loopstat(sysfs, name, &n))
		fail("%s/stat: no %s", sysfs, name);
	return n;
}

static inline int write_attr(const char *name, const char *value)
{
	char path[300];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", sysfs, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		fail("%s: %s", path, strerror(errno));
	return ret_close(fd, write(fd, value, strlen(value)));
}

/* Freed blocks aren't always available at once. */
static inline void full_write(int fd, const void *buf, size_t len,
			      uint64_t pos, const char *what)
{
	ssize_t n;
	int i;

	for (i = 0; i < 250; i++) {
		n = pwrite(fd, buf, len, (off_t)pos);
		if (n >= 0 || errno != ENOSPC)
			break;
		no_space++;
		usleep(20000);
	}
	if (n != (ssize_t)len)
		fail("write to %s: %s", what,
		     n < 0 ? strerror(errno) : "cut short");
}

/* ext4: blocks of two files change places; in blocks of the file system */
struct move_extent {
	uint32_t reserved, donor;
	uint64_t orig, to, len, moved;
};

#define MOVE_EXT	_IOWR('f', 15, struct move_extent)

/* xfs: ranges of two files change places; in bytes */
struct exchange {
	int32_t fd;
	uint32_t pad;
	uint64_t from, to, len, flags;
	uint64_t freshness[6];		/* of a commit only */
};

#define XFS_EXCHANGE	_IOC(_IOC_WRITE, 'X', 129, 40)
#define XFS_START	_IOC(_IOC_READ, 'X', 130, 88)
#define XFS_COMMIT	_IOC(_IOC_WRITE, 'X', 131, 88)

/* @to gets a share of the blocks of @from, whose content must be the same. */
static inline int dedupe(int from, uint64_t from_pos, int to, uint64_t pos,
			 size_t len)
{
	struct {
		struct file_dedupe_range range;
		struct file_dedupe_range_info info;
	} arg = {
		.range = { .src_offset = from_pos, .src_length = len,
			   .dest_count = 1 },
		.info = { .dest_fd = to, .dest_offset = pos },
	};

	if (ioctl(from, FIDEDUPERANGE, &arg))
		return -errno;
	if (arg.info.status < 0)
		return arg.info.status;
	return arg.info.status == FILE_DEDUPE_RANGE_SAME &&
	       arg.info.bytes_deduped == len ? 0 : -EBUSY;
}

/*
 * The image. Up to @prot its sectors are protected: each has a generation that
 * is surely there (@done) and one that is perhaps there (@issued).
 */

static inline void prepare_image(const char *path, uint64_t prot, uint64_t size,
				 uint8_t *buf)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_DIRECT | O_CLOEXEC,
		      0600);
	uint64_t pos;

	if (fd < 0)
		die("%s: %s", path, strerror(errno));
	for (pos = 0; pos < size; pos += CHUNK) {
		stamp(buf, CHUNK, pos < prot ? PROTECTED : SACRIFICED,
		      pos / SECTOR, 2);
		if (pwrite(fd, buf, CHUNK, (off_t)pos) != CHUNK)
			die("%s: %s", path, strerror(errno));
	}
	if (ftruncate(fd, (off_t)(size + TAIL)) || fsync(fd))
		die("%s: %s", path, strerror(errno));
	close(fd);
}

__attribute__((noreturn))
static inline void fail_sector(const char *who, const void *buf,
			       uint64_t sector, uint32_t from, uint32_t to)
{
	if (from == to)
		fail("%s: sector %ju of the device: expected %s of generation %u, found %s",
		     who, (uintmax_t)sector, from & 1 ? "zeroes" : "its stamp",
		     from, whose(buf));
	fail("%s: sector %ju of the device: expected its generation %u to %u, found %s",
	     who, (uintmax_t)sector, from, to, whose(buf));
}

/* Nobody writes to it meanwhile. */
static inline void check_protected(const char *who, const uint8_t *buf,
				   uint64_t pos, size_t len,
				   const _Atomic uint32_t *done)
{
	size_t at;

	for (at = 0; at < len; at += SECTOR) {
		uint64_t s = (pos + at) / SECTOR;
		uint32_t gen = done[s];

		if (!is_right(buf + at, s, gen, gen, false))
			fail_sector(who, buf + at, s, gen, gen);
	}
}

/* All of the protected range, of the device or of its image */
static inline void last_look(const char *path, uint64_t prot,
			     const _Atomic uint32_t *done, uint8_t *buf)
{
	int fd = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
	uint64_t pos;

	if (fd < 0)
		fail("%s: %s", path, strerror(errno));
	for (pos = 0; pos < prot; pos += CHUNK) {
		if (pread(fd, buf, CHUNK, (off_t)pos) != CHUNK)
			fail("request error: read of %s at %ju: %s", path,
			     (uintmax_t)pos, strerror(errno));
		check_protected(path, buf, pos, CHUNK, done);
	}
	close(fd);
}

static inline void sample(uint32_t *to, const _Atomic uint32_t *from,
			  uint64_t pos, size_t len)
{
	size_t i;

	for (i = 0; i < len / SECTOR; i++)
		to[i] = from[pos / SECTOR + i];
}

/*
 * What a reader of the image has found, which began at generations @from. Until
 * the last write has ended, a page may be what the disk was before: returns how
 * many sectors are. There are none if @last.
 */
static inline unsigned int check_file(const char *who, const uint8_t *buf,
				      uint64_t pos, size_t len,
				      const uint32_t *from,
				      const _Atomic uint32_t *issued, bool last)
{
	unsigned int stale = 0;
	size_t i;

	for (i = 0; i < len / SECTOR; i++) {
		const uint64_t *w = (const void *)(buf + i * SECTOR);
		uint64_t s = pos / SECTOR + i;
		uint32_t to = issued[s];

		if (is_right(w, s, from[i], to, true))
			continue;
		if (last || !(is_zero(w) ||
			      (w[2] == s && is_right(w, s, 1, to, true))))
			fail_sector(who, w, s, from[i], to);
		stale++;
	}
	return stale;
}

/*
 * Files around the image. They take the blocks that it gives up, and have to
 * stay what they are: their stamps name the file by its number.
 */

static inline bool is_room(uint64_t reserve)
{
	struct statfs fs;

	if (fstatfs(mount_fd, &fs))
		fail("statfs: %s", strerror(errno));
	return (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize >= reserve;
}

static inline void check_kept(const char *owner, uint32_t file,
			      const uint8_t *buf, uint32_t first, size_t len,
			      uint32_t gen)
{
	uint32_t i;

	for (i = 0; i < len / SECTOR; i++) {
		uint64_t place = (uint64_t)file << 32 | (first + i);

		if (!is_stamp(buf + i * SECTOR, VULTURE, place, gen))
			fail("%s's file %u, sector %u: expected its generation %u, found %s: a write that landed in another's block",
			     owner, file, first + i, gen,
			     whose(buf + i * SECTOR));
	}
}

/* A file that is written at once, and removed; @len 0: there is none. */
struct carcass {
	uint32_t len, gen;
};

static inline void carcass_write(struct carcass *c, const char *path,
				 uint32_t file, uint32_t most_blocks,
				 struct rng *r, uint8_t *buf)
{
	int flags = O_RDWR | O_CREAT | O_TRUNC | O_DIRECT | O_CLOEXEC, fd;
	ssize_t n;

	c->len = BLOCK * (1 + (uint32_t)below(r, most_blocks));
	c->gen++;
	fd = open(path, flags, 0600);
	if (fd < 0)
		fail("%s: %s", path, strerror(errno));
	stamp(buf, c->len, VULTURE, (uint64_t)file << 32, c->gen);
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

static inline void carcass_check(const struct carcass *c, const char *path,
				 const char *owner, uint32_t file, uint8_t *buf)
{
	int fd = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);

	if (fd < 0 || pread(fd, buf, c->len, 0) != (ssize_t)c->len)
		fail("read of %s's %s: %s", owner, path, strerror(errno));
	check_kept(owner, file, buf, 0, c->len, c->gen);
	close(fd);
}

/* A file that changes blocks with the image; each block has a generation. */
struct donor {
	int fd;
	const char *owner;
	uint32_t file;
	uint32_t gen[DONOR_MOST];
};

static inline void donor_write(struct donor *d, uint8_t *buf, uint32_t first,
			       uint32_t nr)
{
	uint32_t i;

	for (i = 0; i < nr; i++)
		stamp(buf + i * BLOCK, BLOCK, VULTURE,
		      (uint64_t)d->file << 32 | (first + i) * (BLOCK / SECTOR),
		      ++d->gen[first + i]);
	full_write(d->fd, buf, nr * BLOCK, (uint64_t)first * BLOCK, "a donor");
	kept_bytes += nr * BLOCK;
}

static inline void donor_check(const struct donor *d, uint8_t *buf,
			       uint32_t first, uint32_t nr)
{
	uint32_t i;

	if (pread(d->fd, buf, nr * BLOCK, (off_t)first * BLOCK) !=
	    (ssize_t)(nr * BLOCK))
		fail("read of a donor: %s", strerror(errno));
	for (i = 0; i < nr; i++)
		check_kept(d->owner, d->file, buf + i * BLOCK,
			   (first + i) * (BLOCK / SECTOR), BLOCK,
			   d->gen[first + i]);
}

#endif
