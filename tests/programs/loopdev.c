// SPDX-License-Identifier: GPL-2.0
/*
 * Attach and detach loop devices of either driver with exactly the flags that a
 * test wants. The control node is $CTL, else /dev/floop-control if it is there,
 * else /dev/loop-control.
 */
#include <fcntl.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "common.h"

static const char usage[] =
	"loopdev attach [-r] [-a] [-p] [-d] [-o OFFSET] [-s SIZELIMIT] [-b SECTOR] [-n N] FILE\n"
	"    read-only, autoclear, partition scan, direct; prints the device\n"
	"loopdev detach [-l] DEVICE    waits until it is, unless -l\n"
	"loopdev capacity|status DEVICE\n"
	"loopdev direct DEVICE 0|1\n"
	"loopdev sector DEVICE BYTES\n"
	"loopdev change DEVICE FILE\n"
	"loopdev autoclear DEVICE\n"
	"loopdev set [-o OFFSET] [-s SIZELIMIT] [-f FLAGS] DEVICE\n"
	"loopdev add|remove N\n"
	"loopdev free\n";

static const char *control(void)
{
	const char *c = getenv("CTL");

	if (c && *c)
		return c;
	return access("/dev/floop-control", F_OK) ? "/dev/loop-control"
						  : "/dev/floop-control";
}

static void node(char *buf, size_t size, int n)
{
	/* /dev/NAME-control stands for /dev/NAME0, /dev/NAME1, ... */
	const char *c = control();
	const char *dash = strrchr(c, '-');

	if (!dash)
		die("%s: not a control node", c);
	snprintf(buf, size, "%.*s%d", (int)(dash - c), c, n);
}

/* The errno's name, too, for errno() in tests/lib/devices.sh */
__attribute__((noreturn))
static void failed(const char *path, const char *what)
{
	die("%s: %s: %s: %s", path, what, strerrorname_np(errno),
	    strerror(errno));
}

static int xopen(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC);

	if (fd < 0)
		failed(path, "open");
	return fd;
}

static int do_attach(int argc, char **argv)
{
	struct loop_config config = {};
	int opt, fd, dev, ctl, n = -1, tries, ro;
	char path[64];

	while ((opt = getopt(argc, argv, "rapdo:s:b:n:")) != -1) {
		switch (opt) {
		case 'r':
			config.info.lo_flags |= LO_FLAGS_READ_ONLY;
			break;
		case 'a':
			config.info.lo_flags |= LO_FLAGS_AUTOCLEAR;
			break;
		case 'p':
			config.info.lo_flags |= LO_FLAGS_PARTSCAN;
			break;
		case 'd':
			config.info.lo_flags |= LO_FLAGS_DIRECT_IO;
			break;
		case 'o':
			config.info.lo_offset = bytes(optarg);
			break;
		case 's':
			config.info.lo_sizelimit = bytes(optarg);
			break;
		case 'b':
			config.block_size = bytes(optarg);
			break;
		case 'n':
			n = atoi(optarg);
			break;
		default:
			die("%s", usage);
		}
	}
	if (optind + 1 != argc)
		die("%s", usage);
	ro = config.info.lo_flags & LO_FLAGS_READ_ONLY;
	fd = xopen(argv[optind], ro ? O_RDONLY : O_RDWR);
	config.fd = fd;
	snprintf((char *)config.info.lo_file_name, LO_NAME_SIZE, "%s",
		 argv[optind]);
	ctl = xopen(control(), O_RDWR);
	for (tries = 0; tries < 1000; tries++) {
		int free = n >= 0 ? n : ioctl(ctl, LOOP_CTL_GET_FREE);

		if (free < 0)
			failed(control(), "LOOP_CTL_GET_FREE");
		node(path, sizeof(path), free);
		dev = open(path, (ro ? O_RDONLY : O_RDWR) | O_CLOEXEC);
		if (dev < 0) {
			/*
			 * devtmpfs, or the removal of the device by another,
			 * may be a moment behind
			 */
			if (errno != ENOENT && errno != ENXIO)
				failed(path, "open");
			usleep(10000);
			continue;
		}
		if (!ioctl(dev, LOOP_CONFIGURE, &config)) {
			puts(path);
			return 0;
		}
		if (errno != EBUSY || n >= 0)
			failed(path, "LOOP_CONFIGURE");
		close(dev);
	}
	die("no free device after %d tries", tries);
}

static void get_status(int fd, const char *path, struct loop_info64 *info)
{
	if (ioctl(fd, LOOP_GET_STATUS64, info))
		failed(path, "LOOP_GET_STATUS64");
}

static int do_status(const char *path)
{
	int fd = xopen(path, O_RDONLY);
	struct loop_info64 info;

	get_status(fd, path, &info);
	printf("number=%u flags=%u offset=%llu sizelimit=%llu file=%s\n",
	       info.lo_number, info.lo_flags, info.lo_offset, info.lo_sizelimit,
	       info.lo_file_name);
	return 0;
}

static int set_status(int fd, const char *path, struct loop_info64 *info)
{
	if (ioctl(fd, LOOP_SET_STATUS64, info))
		failed(path, "LOOP_SET_STATUS64");
	return 0;
}

static int do_autoclear(const char *path)
{
	int fd = xopen(path, O_RDONLY);
	struct loop_info64 info;

	get_status(fd, path, &info);
	info.lo_flags |= LO_FLAGS_AUTOCLEAR;
	return set_status(fd, path, &info);
}

static int do_set(int argc, char **argv)
{
	const char *offset = NULL, *limit = NULL, *flags = NULL, *path;
	struct loop_info64 info;
	int opt, fd;

	while ((opt = getopt(argc, argv, "o:s:f:")) != -1) {
		switch (opt) {
		case 'o':
			offset = optarg;
			break;
		case 's':
			limit = optarg;
			break;
		case 'f':
			flags = optarg;
			break;
		default:
			die("%s", usage);
		}
	}
	if (optind + 1 != argc)
		die("%s", usage);
	path = argv[optind];
	fd = xopen(path, O_RDWR);
	get_status(fd, path, &info);
	if (offset)
		info.lo_offset = bytes(offset);
	if (limit)
		info.lo_sizelimit = bytes(limit);
	if (flags)
		info.lo_flags = bytes(flags);
	return set_status(fd, path, &info);
}

static int do_detach(const char *path, int wait)
{
	struct loop_info64 info;
	int fd = xopen(path, O_RDONLY), tries;

	if (ioctl(fd, LOOP_CLR_FD))
		failed(path, "LOOP_CLR_FD");
	close(fd);
	/*
	 * With others having it open, udev for one, it is detached when the
	 * last of them closes it.
	 */
	for (tries = 0; wait; tries++) {
		int ret;

		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			return 0;
		ret = ioctl(fd, LOOP_GET_STATUS64, &info);
		close(fd);
		if (ret)
			return 0;
		if (tries == 6000)
			die("%s: still attached, somebody has it open", path);
		usleep(10000);
	}
	return 0;
}

static int simple(const char *path, unsigned long cmd, unsigned long arg)
{
	int fd = xopen(path, O_RDWR);
	int ret = ioctl(fd, cmd, arg);

	if (ret < 0)
		failed(path, "ioctl");
	return ret;
}

int main(int argc, char **argv)
{
	const char *verb = argc > 1 ? argv[1] : "";

	if (!strcmp(verb, "attach"))
		return do_attach(argc - 1, argv + 1);
	if (!strcmp(verb, "set"))
		return do_set(argc - 1, argv + 1);
	if (!strcmp(verb, "free")) {
		printf("%d\n", simple(control(), LOOP_CTL_GET_FREE, 0));
		return 0;
	}
	if (argc < 3)
		die("%s", usage);
	if (!strcmp(verb, "detach"))
		return strcmp(argv[2], "-l") ? do_detach(argv[2], 1)
					     : do_detach(argv[3], 0);
	if (!strcmp(verb, "status"))
		return do_status(argv[2]);
	if (!strcmp(verb, "autoclear"))
		return do_autoclear(argv[2]);
	if (!strcmp(verb, "capacity"))
		return simple(argv[2], LOOP_SET_CAPACITY, 0);
	if (!strcmp(verb, "add")) {
		printf("%d\n", simple(control(), LOOP_CTL_ADD,
				      strtoul(argv[2], NULL, 0)));
		return 0;
	}
	if (!strcmp(verb, "remove")) {
		simple(control(), LOOP_CTL_REMOVE, strtoul(argv[2], NULL, 0));
		return 0;
	}
	if (argc < 4)
		die("%s", usage);
	if (!strcmp(verb, "direct"))
		return simple(argv[2], LOOP_SET_DIRECT_IO,
			      strtoul(argv[3], NULL, 0));
	if (!strcmp(verb, "sector"))
		return simple(argv[2], LOOP_SET_BLOCK_SIZE, bytes(argv[3]));
	if (!strcmp(verb, "change"))
		return simple(argv[2], LOOP_CHANGE_FD,
			      (unsigned long)xopen(argv[3], O_RDWR));
	die("%s", usage);
}
