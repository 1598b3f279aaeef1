// SPDX-License-Identifier: GPL-2.0
/*
 * Everything at once on the same few devices.
 *
 *   stress [-t SECONDS] [-s SEED] [-d DEVICES] [-p PROCESSES-OF-A-KIND] [-b BASE] DIR
 *
 * Processes of every kind below attach, detach, configure, open, scan, resize and use the devices BASE... of the driver
 * whose control node is $CTL, on images in DIR, each without a look at what the others do. Every call may fail, but only
 * in the ways that its list has; an errno that nobody should ever get ends the run. That nothing hangs is seen from all
 * processes coming to their end.
 */
#include <dirent.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "common.h"

#define IMAGES 6
#define IMAGE_SIZE (4 << 20)

static const char *control, *dir;
static unsigned int devices = 8, base = 40;
static struct rng r;

struct count {
	uint64_t ok, failed, by_errno[160];
};

static struct count *counts;	/* one per kind of call, shared by all processes */

enum call {
	ADD, REMOVE, GET_FREE, OPEN, OPEN_EXCL, CONFIGURE, SET_FD, CLR_FD, SET_STATUS, GET_STATUS, CHANGE_FD,
	SET_CAPACITY, SET_DIRECT_IO, SET_BLOCK_SIZE, RRPART, READ, WRITE, FSYNC, DISCARD, ZEROOUT, FLSBUF, MMAP,
	TRUNCATE, IMAGE_WRITE, IMAGE_PUNCH, SYSFS, UEVENT, QUEUE, NR_CALLS
};

static const char * const names[NR_CALLS] = {
	"LOOP_CTL_ADD", "LOOP_CTL_REMOVE", "LOOP_CTL_GET_FREE", "open", "open O_EXCL", "LOOP_CONFIGURE", "LOOP_SET_FD",
	"LOOP_CLR_FD", "LOOP_SET_STATUS64", "LOOP_GET_STATUS64", "LOOP_CHANGE_FD", "LOOP_SET_CAPACITY",
	"LOOP_SET_DIRECT_IO", "LOOP_SET_BLOCK_SIZE", "BLKRRPART", "read", "write", "fsync", "BLKDISCARD", "BLKZEROOUT",
	"BLKFLSBUF", "mmap", "truncate of the image", "write to the image", "hole in the image", "sysfs", "uevent",
	"queue attribute",
};

/* None of these makes sense from any of the calls above, whatever the others do meanwhile. */
static const int never[] = { EFAULT, ENOSYS, EBADF, EDEADLK, ENOTTY, EOVERFLOW, ECHILD, ESRCH, EDOM, ENOTEMPTY };

static int note(enum call c, long ret)
{
	int e = errno;
	size_t i;

	if (ret >= 0) {
		__atomic_add_fetch(&counts[c].ok, 1, __ATOMIC_RELAXED);
		return (int)ret;
	}
	__atomic_add_fetch(&counts[c].failed, 1, __ATOMIC_RELAXED);
	if (e < 160)
		__atomic_add_fetch(&counts[c].by_errno[e], 1, __ATOMIC_RELAXED);
	/* 7.x, bio_iov_iter_align_down(): the sectors have become larger than the I/O since its size was found right. */
	if (e == EFAULT && (c == READ || c == WRITE))
		return -1;
	for (i = 0; i < sizeof(never) / sizeof(*never); i++)
		if (e == never[i])
			die("%s: %s: nothing should ever give this", names[c], strerror(e));
	errno = e;
	return -1;
}

static int open_dev(int flags)
{
	char path[128];

	snprintf(path, sizeof(path), "%.*s%u", (int)(strrchr(control, '-') - control), control,
		 base + (unsigned int)below(&r, devices));
	return note(flags & O_EXCL ? OPEN_EXCL : OPEN, open(path, flags | O_CLOEXEC));
}

static int open_image(int flags)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s/stress.%ju", dir, (uintmax_t)below(&r, IMAGES));
	fd = open(path, flags | O_CLOEXEC);
	if (fd < 0 && errno != ENFILE && errno != EMFILE && errno != ENOMEM)
		die("%s: %s", path, strerror(errno));
	return fd;
}

static void configure(void)
{
	struct loop_config config = {};
	int fd = open_dev(below(&r, 8) ? O_RDWR : O_RDONLY), img;
	static const unsigned int sizes[] = { 0, 0, 512, 1024, 2048, 4096 };

	if (fd < 0)
		return;
	img = open_image(below(&r, 6) ? O_RDWR : O_RDONLY);
	if (img >= 0) {
		config.fd = (uint32_t)img;
		config.block_size = sizes[below(&r, 6)];
		config.info.lo_offset = below(&r, 4) ? 0 : below(&r, 16) * 512;
		config.info.lo_sizelimit = below(&r, 4) ? 0 : below(&r, IMAGE_SIZE);
		if (!below(&r, 3))
			config.info.lo_flags |= LO_FLAGS_AUTOCLEAR;
		if (!below(&r, 3))
			config.info.lo_flags |= LO_FLAGS_PARTSCAN;
		if (below(&r, 2))
			config.info.lo_flags |= LO_FLAGS_DIRECT_IO;
		if (!below(&r, 6))
			config.info.lo_flags |= LO_FLAGS_READ_ONLY;
		if (below(&r, 4))
			note(CONFIGURE, ioctl(fd, LOOP_CONFIGURE, &config));
		else
			note(SET_FD, ioctl(fd, LOOP_SET_FD, img));
		close(img);
	}
	/* at times the descriptor stays with us while the device is used */
	if (!below(&r, 4))
		usleep((useconds_t)below(&r, 3000));
	close(fd);
}

static void detach(void)
{
	int fd = open_dev(O_RDONLY);

	if (fd < 0)
		return;
	note(CLR_FD, ioctl(fd, LOOP_CLR_FD, 0));
	close(fd);
	usleep((useconds_t)below(&r, 5000));
}

static void tweak(void)
{
	static const unsigned int sizes[] = { 512, 1024, 2048, 4096, 8192, 65536, 3, 0 };
	int fd = open_dev(O_RDWR), img;
	struct loop_info64 info;

	if (fd < 0)
		return;
	switch (below(&r, 7)) {
	case 0:
		note(SET_BLOCK_SIZE, ioctl(fd, LOOP_SET_BLOCK_SIZE, sizes[below(&r, 8)]));
		break;
	case 1:
		note(SET_DIRECT_IO, ioctl(fd, LOOP_SET_DIRECT_IO, below(&r, 2)));
		break;
	case 2:
		if (note(GET_STATUS, ioctl(fd, LOOP_GET_STATUS64, &info)) < 0)
			break;
		if (below(&r, 2))
			info.lo_flags ^= LO_FLAGS_AUTOCLEAR;
		if (!below(&r, 3))
			info.lo_flags |= LO_FLAGS_PARTSCAN;
		if (!below(&r, 3))
			info.lo_offset = below(&r, 8) * 512;
		if (!below(&r, 3))
			info.lo_sizelimit = below(&r, 2) * (1 << 20);
		note(SET_STATUS, ioctl(fd, LOOP_SET_STATUS64, &info));
		break;
	case 3:
		img = open_image(O_RDWR);
		if (img < 0)
			break;
		note(CHANGE_FD, ioctl(fd, LOOP_CHANGE_FD, img));
		close(img);
		break;
	case 4:
		note(SET_CAPACITY, ioctl(fd, LOOP_SET_CAPACITY, 0));
		break;
	default:
		note(GET_STATUS, ioctl(fd, LOOP_GET_STATUS64, &info));
	}
	close(fd);
}

static void resize(void)
{
	int img = open_image(O_RDWR), fd;

	if (img < 0)
		return;
	note(TRUNCATE, ftruncate(img, (off_t)(IMAGE_SIZE / 2 + below(&r, IMAGE_SIZE))));
	close(img);
	fd = open_dev(O_RDWR);
	if (fd < 0)
		return;
	note(SET_CAPACITY, ioctl(fd, LOOP_SET_CAPACITY, 0));
	close(fd);
	usleep((useconds_t)below(&r, 5000));
}

static void opener(void)
{
	int fds[4], i, n = 1 + (int)below(&r, 4);

	for (i = 0; i < n; i++)
		fds[i] = open_dev((below(&r, 3) ? O_RDONLY : O_RDWR) | (below(&r, 5) ? 0 : O_EXCL) |
				  (below(&r, 5) ? 0 : O_DIRECT));
	for (i = 0; i < n; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	/* A device that is always open is never detached. */
	usleep((useconds_t)below(&r, 5000));
}

static void scanner(void)
{
	int fd = open_dev(O_RDONLY);
	char path[256];

	if (fd >= 0) {
		note(RRPART, ioctl(fd, BLKRRPART, 0));
		close(fd);
	}
	snprintf(path, sizeof(path), "/sys/block/%s%u/uevent", strrchr(control, '/') + 1, base);
	/* /dev/XXX-control: the disks are XXXn */
	snprintf(path, sizeof(path), "/sys/block/%.*s%u/uevent",
		 (int)(strrchr(control, '-') - strrchr(control, '/') - 1), strrchr(control, '/') + 1,
		 base + (unsigned int)below(&r, devices));
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd >= 0) {
		note(UEVENT, write(fd, "change", 6));
		close(fd);
	}
	usleep((useconds_t)below(&r, 20000));
}

static void io(void)
{
	int direct = (int)below(&r, 2), fd = open_dev(O_RDWR | (direct ? O_DIRECT : 0)), i;
	uint8_t *buf = aligned(64 << 10);
	uint64_t range[2];

	for (i = 0; fd >= 0 && i < 20; i++) {
		size_t len = 4096 * (1 + below(&r, 16));
		off_t pos = (off_t)(4096 * below(&r, IMAGE_SIZE / 4096));
		void *map;

		range[0] = (uint64_t)pos;
		range[1] = len;
		switch (below(&r, 12)) {
		case 0: case 1: case 2:
			note(READ, pread(fd, buf, len, pos));
			break;
		case 3: case 4: case 5: case 6:
			note(WRITE, pwrite(fd, buf, len, pos));
			break;
		case 7:
			note(FSYNC, fsync(fd));
			break;
		case 8:
			note(DISCARD, ioctl(fd, BLKDISCARD, range));
			break;
		case 9:
			note(ZEROOUT, ioctl(fd, BLKZEROOUT, range));
			break;
		case 10:
			note(FLSBUF, ioctl(fd, BLKFLSBUF, 0));
			break;
		case 11:
			map = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, pos);
			note(MMAP, map == MAP_FAILED ? -1 : 0);
			if (map != MAP_FAILED)
				munmap(map, len);
			break;
		}
	}
	free(buf);
	if (fd >= 0)
		close(fd);
	usleep((useconds_t)below(&r, 5000));
}

static void image_user(void)
{
	int img = open_image(O_RDWR);
	uint8_t *buf = aligned(16384);

	if (img >= 0) {
		off_t pos = (off_t)(4096 * below(&r, IMAGE_SIZE / 4096));

		if (below(&r, 2))
			note(IMAGE_WRITE, pwrite(img, buf, 16384, pos));
		else
			note(IMAGE_PUNCH, fallocate(img, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, pos, 65536));
		close(img);
	}
	free(buf);
	usleep((useconds_t)below(&r, 5000));
}

static void ctl(void)
{
	int fd = open(control, O_RDWR | O_CLOEXEC), n;

	if (fd < 0)
		die("%s: %s", control, strerror(errno));
	n = (int)(base + below(&r, devices));
	switch (below(&r, 4)) {
	case 0:
		note(ADD, ioctl(fd, LOOP_CTL_ADD, n));
		break;
	case 1:
		if (note(REMOVE, ioctl(fd, LOOP_CTL_REMOVE, n)) >= 0) {
			usleep((useconds_t)below(&r, 1000));
			note(ADD, ioctl(fd, LOOP_CTL_ADD, n));
		}
		break;
	case 2:
		note(GET_FREE, ioctl(fd, LOOP_CTL_GET_FREE));
		break;
	case 3:
		/* a number out of the common range, and away again */
		n = note(ADD, ioctl(fd, LOOP_CTL_ADD, (int)(base + 500 + below(&r, 1000))));
		if (n >= 0)
			note(REMOVE, ioctl(fd, LOOP_CTL_REMOVE, n));
		break;
	}
	close(fd);
	usleep((useconds_t)below(&r, 5000));
}

static void reader_of(const char *path)
{
	struct dirent *e;
	DIR *d = opendir(path);
	char buf[4096], p[512];
	int fd;

	if (!d)
		return;
	while ((e = readdir(d))) {
		if (e->d_type != DT_REG)
			continue;
		snprintf(p, sizeof(p), "%s/%s", path, e->d_name);
		fd = open(p, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			continue;
		note(SYSFS, read(fd, buf, sizeof(buf)));
		close(fd);
	}
	closedir(d);
}

static void sysfs(void)
{
	static const char * const attrs[] = { "nr_requests", "read_ahead_kb", "max_sectors_kb", "write_cache", "nomerges" };
	static const char * const values[] = { "64", "128", "256", "write back", "1" };
	char path[256], p[300];
	size_t i = below(&r, 5);
	int fd;

	snprintf(path, sizeof(path), "/sys/block/%.*s%u", (int)(strrchr(control, '-') - strrchr(control, '/') - 1),
		 strrchr(control, '/') + 1, base + (unsigned int)below(&r, devices));
	reader_of(path);
	snprintf(p, sizeof(p), "%s/loop", path);
	reader_of(p);
	snprintf(p, sizeof(p), "%s/queue", path);
	reader_of(p);
	snprintf(p, sizeof(p), "%s/queue/%s", path, attrs[i]);
	fd = open(p, O_WRONLY | O_CLOEXEC);
	if (fd >= 0) {
		note(QUEUE, write(fd, values[i], strlen(values[i])));
		close(fd);
	}
	usleep((useconds_t)below(&r, 10000));
}

static void (* const kinds[])(void) = {
	configure, configure, detach, detach, tweak, tweak, resize, opener, scanner, io, io, image_user, ctl, sysfs,
};

#define KINDS (sizeof(kinds) / sizeof(*kinds))

int main(int argc, char **argv)
{
	unsigned int each = 1, i, e, bad = 0;
	uint64_t seed = 1, limit = 20;
	int opt, status, fd;
	double end;

	while ((opt = getopt(argc, argv, "t:s:d:p:b:")) != -1) {
		switch (opt) {
		case 't':
			limit = strtoull(optarg, NULL, 0);
			break;
		case 's':
			seed = strtoull(optarg, NULL, 0);
			break;
		case 'd':
			devices = (unsigned int)atoi(optarg);
			break;
		case 'p':
			each = (unsigned int)atoi(optarg);
			break;
		case 'b':
			base = (unsigned int)atoi(optarg);
			break;
		default:
			die("stress [-t SECONDS] [-s SEED] [-d DEVICES] [-p PROCESSES-OF-A-KIND] [-b BASE] DIR");
		}
	}
	control = getenv("CTL");
	if (!control)
		control = "/dev/loop-control";
	if (optind + 1 != argc || !devices)
		die("stress: a folder for the images");
	dir = argv[optind];
	counts = mmap(NULL, NR_CALLS * sizeof(*counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (counts == MAP_FAILED)
		die("no memory");
	for (i = 0; i < IMAGES; i++) {
		char path[256];

		snprintf(path, sizeof(path), "%s/stress.%u", dir, i);
		fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		if (fd < 0 || ftruncate(fd, IMAGE_SIZE))
			die("%s: %s", path, strerror(errno));
		close(fd);
	}
	fd = open(control, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		die("%s: %s", control, strerror(errno));
	for (i = 0; i < devices; i++)
		if (ioctl(fd, LOOP_CTL_ADD, base + i) < 0 && errno != EEXIST)
			die("LOOP_CTL_ADD %u: %s", base + i, strerror(errno));
	fflush(stdout);

	end = seconds() + (double)limit;
	for (i = 0; i < KINDS * each; i++) {
		pid_t pid = fork();

		if (pid < 0)
			die("fork: %s", strerror(errno));
		if (pid)
			continue;
		r.state = mix(seed * 1000 + i);
		while (seconds() < end)
			kinds[i % KINDS]();
		exit(0);
	}
	while (wait(&status) > 0)
		bad += !!status;

	/* Away with all of it: what was attached, then the devices; others may look at them for a moment yet. */
	for (i = 0; i < devices; i++) {
		char path[128];
		int n, left;

		snprintf(path, sizeof(path), "%.*s%u", (int)(strrchr(control, '-') - control), control, base + i);
		for (n = 0; n < 3000; n++) {
			int dev = open(path, O_RDONLY | O_CLOEXEC);

			left = dev >= 0 && !ioctl(dev, LOOP_CLR_FD);
			if (dev >= 0)
				close(dev);
			if (!left && (ioctl(fd, LOOP_CTL_REMOVE, base + i) >= 0 || errno == ENODEV))
				break;
			usleep(10000);
		}
		if (n == 3000)
			die("%s: cannot be removed: %s", path, strerror(errno));
	}
	for (i = 0; i < IMAGES; i++) {
		char path[256];

		snprintf(path, sizeof(path), "%s/stress.%u", dir, i);
		unlink(path);
	}
	for (i = 0; i < NR_CALLS; i++) {
		printf("  %-22s %8ju ok %8ju failed", names[i], (uintmax_t)counts[i].ok, (uintmax_t)counts[i].failed);
		for (e = 0; e < 160; e++)
			if (counts[i].by_errno[e])
				printf(", %s %ju", strerrorname_np((int)e), (uintmax_t)counts[i].by_errno[e]);
		putchar('\n');
	}
	if (bad)
		die("%u processes ended badly", bad);
	/* A run in which nothing worked shows nothing. */
	if (!counts[CONFIGURE].ok || !counts[CLR_FD].ok || !counts[READ].ok || !counts[WRITE].ok || !counts[REMOVE].ok)
		die("a run in which one of the main calls never worked");
	return 0;
}
