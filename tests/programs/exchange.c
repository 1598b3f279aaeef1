// SPDX-License-Identifier: GPL-2.0
/*
 * XFS_IOC_SWAPEXT as an image's owner may call it, and a look at the image as
 * xfs_scrub has it.
 *
 *   exchange PATH DONOR
 *	exchanges their blocks, and says "exchanged"
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
#include "swapext.h"

/* As in the kernel's xfs_fs.h. */
struct xfs_look {
	uint32_t type, flags;
	uint64_t ino;
	uint32_t gen, agno;
	uint64_t reserved[5];
};

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
	int fd, donor_fd = must_open(donor, O_RDWR);
	struct swapext x;
	struct stat st;

	if (stat(path, &st))
		die("%s: %s", path, strerror(errno));
	fd = must_open(path, O_RDWR);
	x = swapext_of(fd, &st, donor_fd);
	if (ioctl(fd, XFS_SWAPEXT, &x))
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
