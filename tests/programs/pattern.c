// SPDX-License-Identifier: GPL-2.0
/*
 * Write a file or a device with contents that follow from a seed, or check
 * them.
 *
 *   pattern write|check [-d] [-a] [-n] [-q] [-b BLOCK] [-k STEP]
 *		[-s SEED] [-o OFFSET] PATH SIZE
 *
 * -d direct; -a every write durable at once (O_DSYNC); -n no fsync at the end;
 * -q prints no speed; -k: from one block to the next, for holes in between.
 *
 * Prints speed and the longest that one call took. An error ends it: it prints
 * "ENOSPC write 4096" (errno, call, where) and the exit status is 3. Contents
 * that are wrong: exit status 4.
 */
#include <fcntl.h>

#include "common.h"

static const char *errname(int e)
{
	switch (e) {
	case EIO:
		return "EIO";
	case ENOSPC:
		return "ENOSPC";
	case EAGAIN:
		return "EAGAIN";
	case EINVAL:
		return "EINVAL";
	case EROFS:
		return "EROFS";
	case ENODEV:
		return "ENODEV";
	case ENXIO:
		return "ENXIO";
	case ENOMEM:
		return "ENOMEM";
	case ETIMEDOUT:
		return "ETIMEDOUT";
	case EOPNOTSUPP:
		return "EOPNOTSUPP";
	}
	return strerror(e);
}

static void failed(const char *call, uint64_t pos)
{
	printf("%s %s %ju\n", errname(errno), call, (uintmax_t)pos);
	exit(3);
}

int main(int argc, char **argv)
{
	uint64_t block = 1 << 20, step = 0, seed = 1, off = 0, size, pos;
	int opt, fd, quiet = 0, writes, sync = 1, flags = 0;
	double t0, longest = 0, end;
	const char *path, *verb;
	uint8_t *buf;

	verb = argc > 1 ? argv[1] : "";
	writes = !strcmp(verb, "write");
	if (!writes && strcmp(verb, "check"))
		die("pattern write|check [-d] [-a] [-n] [-q] [-b BLOCK] [-k STEP] [-s SEED] [-o OFFSET] PATH SIZE");
	argc--;
	argv++;
	while ((opt = getopt(argc, argv, "danqb:k:s:o:")) != -1) {
		switch (opt) {
		case 'd':
			flags |= O_DIRECT;
			break;
		case 'a':
			flags |= O_DSYNC;
			break;
		case 'n':
			sync = 0;
			break;
		case 'q':
			quiet = 1;
			break;
		case 'b':
			block = bytes(optarg);
			break;
		case 'k':
			step = bytes(optarg);
			break;
		case 's':
			seed = strtoull(optarg, NULL, 0);
			break;
		case 'o':
			off = bytes(optarg);
			break;
		default:
			die("pattern: see its first lines");
		}
	}
	if (optind + 2 != argc)
		die("pattern: a path and a size");
	path = argv[optind];
	size = bytes(argv[optind + 1]);
	if (!step)
		step = block;
	buf = aligned(block);
	fd = open(path,
		  (writes ? O_RDWR | O_CREAT : O_RDONLY) | flags | O_CLOEXEC,
		  0644);
	if (fd < 0)
		failed("open", 0);
	t0 = seconds();
	for (pos = off; pos < off + size; pos += step) {
		size_t n = off + size - pos < block ? off + size - pos : block;
		double t = seconds();
		ssize_t ret;
		int64_t bad;

		if (writes) {
			fill_pattern(buf, pos, n, seed);
			ret = pwrite(fd, buf, n, (off_t)pos);
		} else {
			ret = pread(fd, buf, n, (off_t)pos);
		}
		if (ret < 0)
			failed(verb, pos);
		if (ret != (ssize_t)n && writes && step == block) {
			/* The next one gets the error. */
			pos -= block - (size_t)ret;
			continue;
		}
		if (ret != (ssize_t)n) {
			printf("short %s %ju\n", verb, (uintmax_t)pos);
			return 3;
		}
		bad = writes ? -1 : check_pattern(buf, pos, n, seed);
		if (bad >= 0) {
			printf("%s: wrong at byte %jd\n", path, (intmax_t)bad);
			return 4;
		}
		t = seconds() - t;
		if (t > longest)
			longest = t;
	}
	end = seconds();
	if (writes && sync && fsync(fd))
		failed("fsync", pos);
	if (close(fd))
		failed("close", pos);
	if (quiet)
		return 0;
	printf("%s %s: %.1f MiB, %.1f MiB/s, longest call %.0f ms", verb, path,
	       (double)size / (1 << 20),
	       (double)size / (1 << 20) / (seconds() - t0), longest * 1e3);
	if (writes && sync)
		printf(", fsync %.0f ms", (seconds() - end) * 1e3);
	putchar('\n');
	return 0;
}
