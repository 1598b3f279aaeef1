// SPDX-License-Identifier: GPL-2.0
/*
 * many COUNT DIR: attach COUNT images DIR/N.img (made sparse, 1 MiB) at once,
 * use each, detach and remove them all. Prints the seconds of each step and the
 * memory that the devices take.
 */
#include <dirent.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/resource.h>

#include "common.h"

struct memory {
	long available, slab, unreclaimable, kernel_stack, percpu, threads;
};

static struct memory memory(void)
{
	struct memory m = {};
	char line[256];
	struct dirent *e;
	FILE *f;
	DIR *d;

	/* Wait for resources that are being freed. */
	sync();
	f = fopen("/proc/sys/vm/drop_caches", "w");
	if (f) {
		fputs("3\n", f);
		fclose(f);
	}
	usleep(500000);
	f = fopen("/proc/meminfo", "r");
	while (fgets(line, sizeof(line), f)) {
		sscanf(line, "MemAvailable: %ld", &m.available);
		sscanf(line, "Slab: %ld", &m.slab);
		sscanf(line, "SUnreclaim: %ld", &m.unreclaimable);
		sscanf(line, "KernelStack: %ld", &m.kernel_stack);
		sscanf(line, "Percpu: %ld", &m.percpu);
	}
	fclose(f);
	d = opendir("/proc");
	while ((e = readdir(d)))
		m.threads += *e->d_name >= '1' && *e->d_name <= '9';
	closedir(d);
	return m;
}

static void tell(const char *what, struct memory a, struct memory b,
		 double count)
{
	printf("  %-10s %7.1f KiB/device available, %6.1f slab (%6.1f unreclaimable), %5.1f kernel stacks, %5.1f percpu, %+ld processes\n",
	       what, (double)(a.available - b.available) / count,
	       (double)(b.slab - a.slab) / count,
	       (double)(b.unreclaimable - a.unreclaimable) / count,
	       (double)(b.kernel_stack - a.kernel_stack) / count,
	       (double)(b.percpu - a.percpu) / count, b.threads - a.threads);
}

int main(int argc, char **argv)
{
	const char *control = getenv("CTL");
	int ctl, i, j, count, *number, *fd, img;
	struct rlimit lim = { 65536, 65536 };
	struct memory m0, m1, m2, m3;
	char path[256];
	uint8_t *buf = aligned(4096);
	double t;

	if (argc != 3)
		die("many COUNT DIR");
	if (!control)
		control = "/dev/loop-control";
	count = atoi(argv[1]);
	if (setrlimit(RLIMIT_NOFILE, &lim))
		die("RLIMIT_NOFILE: %s", strerror(errno));
	ctl = open(control, O_RDWR | O_CLOEXEC);
	if (ctl < 0)
		die("%s: %s", control, strerror(errno));
	number = calloc((size_t)count, sizeof(*number));
	fd = calloc((size_t)count, sizeof(*fd));
	for (i = 0; i < count; i++) {
		snprintf(path, sizeof(path), "%s/%d.img", argv[2], i);
		img = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
		if (img < 0 || ftruncate(img, 1 << 20))
			die("%s: %s", path, strerror(errno));
		fill_pattern(buf, 0, 4096, (uint64_t)i);
		if (pwrite(img, buf, 4096, 4096) != 4096)
			die("%s: %s", path, strerror(errno));
		close(img);
	}

	m0 = memory();
	t = seconds();
	for (i = 0; i < count; i++) {
		number[i] = ioctl(ctl, LOOP_CTL_ADD, 1000 + i);
		if (number[i] < 0)
			die("LOOP_CTL_ADD %d: %s", 1000 + i, strerror(errno));
	}
	printf("%s: %d devices added: %.2f s\n", control, count, seconds() - t);
	m1 = memory();

	t = seconds();
	for (i = 0; i < count; i++) {
		struct loop_config config = {};

		snprintf(path, sizeof(path), "%.*s%d",
			 (int)(strrchr(control, '-') - control), control,
			 number[i]);
		for (j = 0; j < 500; j++) {
			/*
			 * the node is made by devtmpfs, and may be a moment
			 * behind
			 */
			fd[i] = open(path, O_RDWR | O_CLOEXEC);
			if (fd[i] >= 0 || errno != ENOENT)
				break;
			usleep(10000);
		}
		if (fd[i] < 0)
			die("%s: %s", path, strerror(errno));
		snprintf(path, sizeof(path), "%s/%d.img", argv[2], i);
		img = open(path, O_RDWR | O_CLOEXEC);
		config.fd = (uint32_t)img;
		if (ioctl(fd[i], LOOP_CONFIGURE, &config))
			die("LOOP_CONFIGURE of %d: %s", number[i],
			    strerror(errno));
		close(img);
	}
	printf("  attached: %.2f s\n", seconds() - t);
	m2 = memory();

	t = seconds();
	for (i = 0; i < count; i++) {
		if (pread(fd[i], buf, 4096, 4096) != 4096)
			die("read of %d: %s", number[i], strerror(errno));
		if (check_pattern(buf, 0, 4096, (uint64_t)i) >= 0)
			die("device %d: the data of another image", number[i]);
		fill_pattern(buf, 0, 4096, (uint64_t)i + 7777777);
		if (pwrite(fd[i], buf, 4096, 8192) != 4096 || fsync(fd[i]))
			die("write of %d: %s", number[i], strerror(errno));
	}
	printf("  used: %.2f s\n", seconds() - t);
	m3 = memory();

	t = seconds();
	for (i = 0; i < count; i++) {
		if (ioctl(fd[i], LOOP_CLR_FD))
			die("LOOP_CLR_FD of %d: %s", number[i],
			    strerror(errno));
		close(fd[i]);
	}
	printf("  detached: %.2f s\n", seconds() - t);

	t = seconds();
	for (i = 0; i < count; i++) {
		for (j = 0; j < 500; j++) {
			/*
			 * udev may have it open, as it does after every change
			 */
			if (ioctl(ctl, LOOP_CTL_REMOVE, number[i]) >= 0)
				break;
			if (errno != EBUSY)
				die("LOOP_CTL_REMOVE of %d: %s", number[i],
				    strerror(errno));
			usleep(10000);
		}
		if (j == 500)
			die("LOOP_CTL_REMOVE of %d: busy for good", number[i]);
	}
	printf("  removed: %.2f s\n", seconds() - t);
	tell("added", m0, m1, count);
	tell("attached", m1, m2, count);
	tell("used", m2, m3, count);
	tell("left over", m0, memory(), count);

	for (i = 0; i < count; i++) {
		snprintf(path, sizeof(path), "%s/%d.img", argv[2], i);
		img = open(path, O_RDONLY | O_CLOEXEC);
		if (pread(img, buf, 4096, 8192) != 4096 ||
		    check_pattern(buf, 0, 4096, (uint64_t)i + 7777777) >= 0)
			die("%s: not what was written", path);
		close(img);
		unlink(path);
	}
	return 0;
}
