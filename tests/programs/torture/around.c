// SPDX-License-Identifier: GPL-2.0
/*
 * Operations on what is around the image's blocks: its inode, its file system,
 * the device's settings.
 */
#include <linux/fs.h>
#include <linux/loop.h>
#include <sys/stat.h>

#include "torture.h"

int op_sync(struct hostile *h)
{
	int fd;

	if (below(&h->r, 2))
		return syncfs(mount_fd) ? -errno : 0;
	fd = open_image(h, O_RDWR);
	return ret_close(fd, fsync(fd));
}

int op_trim(struct hostile *h)
{
	struct fstrim_range range = { 0, UINT64_MAX, 0 };

	(void)h;
	return ioctl(mount_fd, FITRIM, &range) ? -errno : 0;
}

int op_inode(struct hostile *h)
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

	if (!file || fscanf(file, "%lu %lu %lu %lu %lu %lu %lu", f, f + 1,
			    f + 2, f + 3, f + 4, f + 5, f + 6) != 7)
		fail("%s: unreadable", disk_stat);
	fclose(file);
	return f[6];
}

/* Held while the file system is frozen, by the thread that thaws it */
static pthread_mutex_t freezer = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local bool has_frozen;

static void thaw(void)
{
	int ret = ioctl(mount_fd, FITHAW, 0);

	has_frozen = false;
	pthread_mutex_unlock(&freezer);
	if (ret)
		fail("thaw: %s", strerror(errno));
}

void end_freezing(void)
{
	struct timespec until;

	if (has_frozen)
		thaw();
	/* Never released. The thread that has it may hang. */
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 10;
	pthread_mutex_timedlock(&freezer, &until);
}

int op_freeze(struct hostile *h)
{
	uint64_t before, after;

	if (pthread_mutex_trylock(&freezer))
		return -EBUSY;
	if (ioctl(mount_fd, FIFREEZE, 0)) {
		int error = errno;

		pthread_mutex_unlock(&freezer);
		return -error;
	}
	has_frozen = true;
	before = disk_writes();
	usleep((useconds_t)(5000 + below(&h->r, 30000) + slow * 3000));
	after = disk_writes();
	if (after != before)
		fail("%ju sectors were written to the disk of a frozen file system",
		     (uintmax_t)(after - before));
	thaw();
	/* Tasks that had to wait come first. */
	usleep(5000);
	return 0;
}

int op_mapping(struct hostile *h)
{
	(void)h;
	write_attr("mapping", "0");
	return write_attr("mapping", "1");
}

int op_status(struct hostile *h)
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
