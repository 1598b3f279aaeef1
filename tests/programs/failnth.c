// SPDX-License-Identifier: GPL-2.0
/*
 * failnth FILE: each step of a device's life again and again, its Nth memory
 * allocation failing, for N = 1, 2, 3, ... until no allocation is left to fail
 * (fault injection's /proc/thread-self/fail-nth). Errors are fine, as is
 * success; what isn't shows in the kernel's log. Needs failslab and
 * fail_page_alloc set up to fail allocations that may sleep.
 *
 * failnth -l MODULE-FILE PARAMETERS: so with loading the module, which isn't
 * loaded, but only the last LOAD_LAST allocations: those before them are the
 * kernel's own. Leaves it loaded.
 */
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include "common.h"

#define LOAD_LAST 400

static const char *control, *file;
static int number = 77, nth_fd, dev = -1;
static char path[128];

static int arm(int n)
{
	char s[16];
	int len = snprintf(s, sizeof(s), "%d", n);

	if (pwrite(nth_fd, s, (size_t)len, 0) != len)
		die("fail-nth: %s", strerror(errno));
	return 0;
}

/* How many more allocations it would have been. 0: it did happen */
static int left(void)
{
	char s[16] = "";

	if (pread(nth_fd, s, sizeof(s) - 1, 0) < 0)
		die("fail-nth: %s", strerror(errno));
	arm(0);
	return atoi(s);
}

/* 1: the failure that was armed did happen */
static int disarm(void)
{
	return left() == 0;
}

static int ctl(unsigned long cmd)
{
	int fd = open(control, O_RDWR | O_CLOEXEC), ret, e;

	if (fd < 0)
		return -1;
	ret = ioctl(fd, cmd, number);
	e = errno;
	close(fd);
	errno = e;
	return ret;
}

static int add(void)
{
	return ctl(LOOP_CTL_ADD);
}

static int remove_it(void)
{
	return ctl(LOOP_CTL_REMOVE);
}

static int configure(void)
{
	struct loop_config config = {
		.info.lo_flags = LO_FLAGS_DIRECT_IO | LO_FLAGS_PARTSCAN,
	};
	int fd = open(file, O_RDWR | O_CLOEXEC), ret, e;

	if (fd < 0)
		return -1;
	config.fd = (uint32_t)fd;
	ret = ioctl(dev, LOOP_CONFIGURE, &config);
	e = errno;
	close(fd);
	errno = e;
	return ret;
}

static int clear(void)
{
	return ioctl(dev, LOOP_CLR_FD);
}

static int status(void)
{
	struct loop_info64 info;

	if (ioctl(dev, LOOP_GET_STATUS64, &info))
		return -1;
	info.lo_offset ^= 4096;
	return ioctl(dev, LOOP_SET_STATUS64, &info);
}

static int sector(void)
{
	int size;

	if (ioctl(dev, BLKSSZGET, &size))
		return -1;
	return ioctl(dev, LOOP_SET_BLOCK_SIZE, size == 512 ? 4096 : 512);
}

static int direct(void)
{
	static int on;

	on = !on;
	return ioctl(dev, LOOP_SET_DIRECT_IO, on);
}

static int capacity(void)
{
	return ioctl(dev, LOOP_SET_CAPACITY);
}

static int io(void)
{
	static uint8_t *buf;
	uint64_t range[2] = { 65536, 65536 };
	int fd = open(path, O_RDWR | O_DIRECT | O_CLOEXEC), ret = 0;

	if (fd < 0)
		return -1;
	if (!buf)
		buf = aligned(1 << 20);
	ret |= pwrite(fd, buf, 1 << 20, 0) < 0;
	ret |= pread(fd, buf, 1 << 20, 0) < 0;
	ret |= fsync(fd);
	ret |= ioctl(fd, BLKDISCARD, range);
	ret |= ioctl(fd, BLKZEROOUT, range);
	close(fd);
	return ret ? -1 : 0;
}

static int scan(void)
{
	return ioctl(dev, BLKRRPART);
}

static void reopen(void)
{
	int i;

	if (dev >= 0)
		close(dev);
	for (i = 0; i < 500; i++) {
		dev = open(path, O_RDWR | O_CLOEXEC);
		if (dev >= 0)
			return;
		usleep(10000);
	}
	die("%s: %s", path, strerror(errno));
}

static void settled(int (*again)(void), int e)
{
	int i;

	for (i = 0; i < 1000 && again() < 0 && errno != e; i++)
		usleep(10000);
}

/*
 * Both for real, before the next try: undo what may have worked, and bring back
 * what it needs.
 */
static void prepare(const char *what)
{
	struct loop_info64 info;

	if (!strcmp(what, "add")) {
		close(dev);
		dev = -1;
		settled(remove_it, ENODEV);
		return;
	}
	settled(add, EEXIST);
	reopen();
	if (!strcmp(what, "configure") || !strcmp(what, "remove")) {
		ioctl(dev, LOOP_CLR_FD);
		reopen();
		for (int i = 0;
		     i < 1000 && !ioctl(dev, LOOP_GET_STATUS64, &info); i++) {
			usleep(10000);
			reopen();
		}
		close(dev);
		dev = -1;
		if (!strcmp(what, "remove"))
			return;
		/* A new device: the first attach allocates more. */
		settled(remove_it, ENODEV);
		settled(add, EEXIST);
		reopen();
		return;
	}
	for (int i = 0; i < 1000; i++) {
		if (!configure() || errno != EBUSY ||
		    !ioctl(dev, LOOP_GET_STATUS64, &info))
			break;
		usleep(10000);
	}
}

/*
 * That the steps which must allocate do shows that failures are injected;
 * others have nothing to allocate.
 */
static const struct {
	const char *name;
	int (*run)(void);
	int allocates;
} steps[] = {
	{ "add", add, 1 },
	{ "configure", configure, 1 },
	{ "status", status, 0 },
	{ "sector", sector, 0 },
	{ "direct", direct, 0 },
	{ "capacity", capacity, 0 },
	{ "scan", scan, 0 },
	{ "io", io, 1 },
	{ "clear", clear, 0 },
	{ "remove", remove_it, 0 },
};

static void unload(void)
{
	int i;

	/* udev may have a device open. */
	for (i = 0; i < 500; i++) {
		if (!syscall(SYS_delete_module, "floop", O_NONBLOCK))
			return;
		usleep(10000);
	}
	die("the module can't be unloaded: %s", strerror(errno));
}

static void load_again(const char *module, const char *parameters)
{
	unsigned int failed = 0, worked = 0;
	const int many = 1000000;
	int fd = open(module, O_RDONLY | O_CLOEXEC), n, all, loaded;

	if (fd < 0)
		die("%s: %s", module, strerror(errno));
	arm(many);
	if (syscall(SYS_finit_module, fd, parameters, 0))
		die("%s: %s", module, strerror(errno));
	all = many - left();
	loaded = 1;
	for (n = all > LOAD_LAST ? all - LOAD_LAST : 1; n <= all; n++) {
		if (loaded)
			unload();
		arm(n);
		loaded = !syscall(SYS_finit_module, fd, parameters, 0);
		disarm();
		failed += !loaded;
		worked += loaded;
	}
	printf("load: of %d allocations the last %d made to fail, one a time: %u errors, %u successes\n",
	       all, LOAD_LAST, failed, worked);
	if (!failed)
		die("load: no failure was injected");
	if (!loaded && syscall(SYS_finit_module, fd, parameters, 0))
		die("%s: at the end: %s", module, strerror(errno));
}

int main(int argc, char **argv)
{
	size_t i;

	nth_fd = open("/proc/thread-self/fail-nth", O_RDWR | O_CLOEXEC);
	if (nth_fd < 0)
		die("/proc/thread-self/fail-nth: %s: this kernel has no fault injection",
		    strerror(errno));
	if (argc == 4 && !strcmp(argv[1], "-l")) {
		load_again(argv[2], argv[3]);
		return 0;
	}
	if (argc != 2)
		die("failnth FILE, or failnth -l MODULE-FILE PARAMETERS");
	file = argv[1];
	control = getenv("CTL");
	if (!control)
		control = "/dev/loop-control";
	snprintf(path, sizeof(path), "%.*s%d",
		 (int)(strrchr(control, '-') - control), control, number);
	for (i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
		unsigned int failed = 0, worked = 0;
		int n;

		for (n = 1; n < 2000; n++) {
			int ret;

			prepare(steps[i].name);
			arm(n);
			ret = steps[i].run();
			failed += ret < 0;
			worked += ret >= 0;
			if (!disarm())
				break;
		}
		printf("%-10s %4d allocations made to fail, one a time: %u errors, %u successes\n",
		       steps[i].name, n - 1, failed, worked);
		fflush(stdout);
		if (n == 1 && steps[i].allocates)
			die("%s: nothing was injected", steps[i].name);
	}
	/* And with all of it, the device still works. */
	prepare("io");
	if (io())
		die("%s: does not work any more", path);
	prepare("remove");
	prepare("add");
	return 0;
}
