// SPDX-License-Identifier: GPL-2.0
/*
 * XFS_IOC_SWAPEXT as an image's owner may call it, and a look at the image as
 * xfs_scrub has it.
 *
 *   exchange PATH DONOR
 *	says "open" when it has both, then exchanges their blocks, and says
 *	"exchanged"
 *   exchange scrub PATH
 *	looks at PATH's list of extents again and again, until the end of its
 *	input; says "looking". It doesn't keep PATH open
 */
#include <fcntl.h>
#include <linux/fs.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "common.h"

/* As in the kernel's xfs_fs.h. */
struct xfs_time {
	long tv_sec;
	int32_t tv_nsec;
};

struct xfs_stat {
	uint64_t ino;
	uint16_t mode, nlink;
	uint32_t uid, gid, rdev;
	int32_t blksize;
	int64_t size;
	struct xfs_time atime, mtime, ctime;
	int64_t blocks;
	uint32_t xflags;
	int32_t extsize, extents;
	uint32_t gen;
	uint16_t projid_lo, forkoff, projid_hi, sick, checked;
	unsigned char pad[2];
	uint32_t cowextsize, dmevmask;
	uint16_t dmstate, aextents;
};

struct xfs_exchange {
	int64_t version, target, donor, offset, length;
	char pad[16];
	struct xfs_stat stat;
};

struct xfs_look {
	uint32_t type, flags;
	uint64_t ino;
	uint32_t gen, agno;
	uint64_t reserved[5];
};

#define XFS_IOC_SWAPEXT		_IOWR('X', 109, struct xfs_exchange)
#define XFS_IOC_SCRUB_METADATA	_IOWR('X', 60, struct xfs_look)
#define XFS_SCRUB_TYPE_BMBTD	12

static void say(const char *what)
{
	puts(what);
	fflush(stdout);
}

static int must_open(const char *path, int flags)
{
	int fd = open(path, flags);

	if (fd < 0)
		die("%s: %s", path, strerror(errno));
	return fd;
}

static void exchange(const char *path, const char *donor)
{
	struct xfs_exchange x = {};
	struct stat st;

	x.donor = must_open(donor, O_RDWR);
	if (stat(path, &st))
		die("%s: %s", path, strerror(errno));
	x.length = st.st_size;
	x.stat.ino = st.st_ino;
	x.stat.mtime.tv_sec = st.st_mtim.tv_sec;
	x.stat.mtime.tv_nsec = (int32_t)st.st_mtim.tv_nsec;
	x.stat.ctime.tv_sec = st.st_ctim.tv_sec;
	x.stat.ctime.tv_nsec = (int32_t)st.st_ctim.tv_nsec;
	x.target = must_open(path, O_RDWR);
	if (ioctl((int)x.target, XFS_IOC_SWAPEXT, &x))
		die("XFS_IOC_SWAPEXT: %s", strerror(errno));
	say("exchanged");
}

static void scrub(const char *path)
{
	struct pollfd input = { .fd = 0, .events = POLLIN };
	struct xfs_look look;
	char dir[4096];
	struct stat st;
	int fd, gen;

	if (stat(path, &st))
		die("%s: %s", path, strerror(errno));
	fd = must_open(path, O_RDONLY);
	if (ioctl(fd, FS_IOC_GETVERSION, &gen))
		die("FS_IOC_GETVERSION: %s", strerror(errno));
	close(fd);
	snprintf(dir, sizeof(dir), "%s", path);
	*strrchr(dir, '/') = '\0';
	fd = must_open(dir, O_RDONLY | O_DIRECTORY);
	say("looking");
	do {
		look = (struct xfs_look) {
			.type = XFS_SCRUB_TYPE_BMBTD,
			.ino = st.st_ino,
			.gen = (uint32_t)gen,
		};
		if (ioctl(fd, XFS_IOC_SCRUB_METADATA, &look))
			die("XFS_IOC_SCRUB_METADATA: %s", strerror(errno));
	} while (!poll(&input, 1, 1));
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "scrub"))
		scrub(argv[2]);
	else if (argc == 3)
		exchange(argv[1], argv[2]);
	else
		die("exchange: see its first lines");
	return 0;
}
