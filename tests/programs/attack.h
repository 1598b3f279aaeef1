/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the programs torture and adversary share: what their threads are doing,
 * the device's sysfs folder, and operations on files that others don't have.
 */
#ifndef TESTS_ATTACK_H
#define TESTS_ATTACK_H

#include <fcntl.h>
#include <linux/fs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/types.h>

#include "common.h"
#include "loopstat.h"

/* Of the program: its device's loop/ in sysfs, and how often space was late */
extern char sysfs[256];
extern atomic_ulong no_space;

/* Of the program: report what is wrong, and end all of it */
__attribute__((format(printf, 1, 2), noreturn))
void fail(const char *fmt, ...);

/* What a thread is doing, for the watchdog */
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

/* What was freed can't always be had again at once. */
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

#endif
