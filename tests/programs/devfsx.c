// SPDX-License-Identifier: GPL-2.0
/*
 * Random operations on a block device against a model of it in memory, byte for
 * byte.
 *
 * Each of several processes owns one region of the device and keeps the model
 * of it in memory that all share, so the device is under load from all of them
 * at once while each knows what its own bytes must be. At the end the whole
 * device is compared with the model, direct and through the page cache, and so
 * is the image file.
 *
 * Discarded bytes read as zeroes: both drivers punch a hole, and a hole is
 * zeroes. On an image that can't have holes (-D) a discard may do nothing, and
 * say that it did; and when a discard or a hole is refused, the kernel has by
 * then dropped the dirty pages of the range, so these are written out before.
 */
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "common.h"

#ifndef FALLOC_FL_WRITE_ZEROES
#define FALLOC_FL_WRITE_ZEROES 0x80
#endif

#define MAXIO (256 << 10)
#define HISTORY 24
#define BURST 128
#define BURST_CHANGES 24

enum op {
	READ_DIRECT, READ_BUFFERED, READ_MAPPED,
	WRITE_DIRECT, WRITE_BUFFERED, WRITE_MAPPED, WRITE_VECTOR, WRITE_DSYNC,
	DISCARD, ZEROOUT, PUNCH, ZERO_RANGE, WRITE_ZEROES,
	FSYNC, FDATASYNC, SYNC_RANGE, FLSBUF, REOPEN,
	NR_OPS
};

static const struct {
	const char *name;
	unsigned int weight;
	/* may be refused with EOPNOTSUPP: then it must have changed nothing */
	int optional;
} ops[NR_OPS] = {
	[READ_DIRECT] = { "read direct", 12, 0 },
	[READ_BUFFERED] = { "read buffered", 12, 0 },
	[READ_MAPPED] = { "read mapped", 4, 0 },
	[WRITE_DIRECT] = { "write direct", 20, 0 },
	[WRITE_BUFFERED] = { "write buffered", 16, 0 },
	[WRITE_MAPPED] = { "write mapped", 5, 0 },
	[WRITE_VECTOR] = { "writev direct", 6, 0 },
	[WRITE_DSYNC] = { "write RWF_DSYNC", 4, 0 },
	[DISCARD] = { "discard", 6, 1 },
	[ZEROOUT] = { "zeroout", 4, 0 },
	[PUNCH] = { "punch hole", 4, 1 },
	[ZERO_RANGE] = { "zero range", 3, 1 },
	[WRITE_ZEROES] = { "write zeroes", 2, 1 },
	[FSYNC] = { "fsync", 2, 0 },
	[FDATASYNC] = { "fdatasync", 1, 0 },
	[SYNC_RANGE] = { "sync_file_range", 1, 0 },
	[FLSBUF] = { "BLKFLSBUF", 1, 0 },
	[REOPEN] = { "reopen", 2, 0 },
};

struct past {
	unsigned int n;
	enum op op;
	uint64_t pos, len;
	int err;
};

static const char *dev_path, *image_path;
static uint64_t image_off, dev_size, sector, nr_ops = 1000, seed = 1;
static int direct_fd = -1, buffered_fd = -1, verbose, no_holes;
static unsigned int rest_ms;
static uint8_t *model;
static struct past past[HISTORY];
static unsigned int npast;
static uint64_t done[NR_OPS], refused[NR_OPS];

static void tell_past(void)
{
	unsigned int i;

	for (i = npast > HISTORY ? npast - HISTORY : 0; i < npast; i++) {
		struct past *p = &past[i % HISTORY];

		fprintf(stderr, "  %u: %s %#jx..%#jx%s%s\n", p->n,
			ops[p->op].name, (uintmax_t)p->pos,
			(uintmax_t)(p->pos + p->len), p->err ? ": " : "",
			p->err ? strerror(p->err) : "");
	}
}

static void open_dev(void)
{
	direct_fd = open(dev_path, O_RDWR | O_DIRECT | O_CLOEXEC);
	buffered_fd = open(dev_path, O_RDWR | O_CLOEXEC);
	if (direct_fd < 0 || buffered_fd < 0)
		die("%s: %s", dev_path, strerror(errno));
}

static void close_dev(void)
{
	close(direct_fd);
	close(buffered_fd);
}

static void compare(const char *what, const uint8_t *got, uint64_t pos,
		    uint64_t len)
{
	uint64_t i, n = 0, first = 0;

	if (!memcmp(got, model + pos, len))
		return;
	for (i = 0; i < len; i++) {
		if (got[i] == model[pos + i])
			continue;
		if (!n++)
			first = i;
	}
	fprintf(stderr,
		"%s: %ju bytes of %#jx..%#jx are wrong, the first at %#jx: is %02x, must be %02x; seed %ju; before it:\n",
		what, (uintmax_t)n, (uintmax_t)pos, (uintmax_t)(pos + len),
		(uintmax_t)(pos + first), got[first], model[pos + first],
		(uintmax_t)seed);
	tell_past();
	exit(1);
}

static void compare_all(const char *path, int flags, uint64_t off)
{
	const char *what = off || path == image_path ? "the image"
			   : flags & O_DIRECT	     ? "in the end, direct"
						     : "in the end, buffered";
	uint8_t *buf = aligned(1 << 20);
	int fd = open(path, O_RDONLY | O_CLOEXEC | flags);
	uint64_t pos, n;

	if (fd < 0)
		die("%s: %s", path, strerror(errno));
	for (pos = 0; pos < dev_size; pos += n) {
		ssize_t got;

		n = dev_size - pos < 1 << 20 ? dev_size - pos : 1 << 20;
		got = pread(fd, buf, n, (off_t)(off + pos));
		/*
		 * An image that was truncated to its size by an odd number ends
		 * in a part of a sector.
		 */
		if (got != (ssize_t)n)
			die("%s: read of %ju at %ju: %zd, %s", path,
			    (uintmax_t)n, (uintmax_t)(off + pos), got,
			    got < 0 ? strerror(errno) : "short");
		compare(what, buf, pos, n);
	}
	close(fd);
	free(buf);
}

static void must(ssize_t ret, uint64_t want, enum op op, uint64_t pos)
{
	if (ret == (ssize_t)want)
		return;
	fprintf(stderr, "%s of %ju at %#jx: %s (%zd); seed %ju; before it:\n",
		ops[op].name, (uintmax_t)want, (uintmax_t)pos,
		ret < 0 ? strerror(errno) : "short", ret, (uintmax_t)seed);
	tell_past();
	exit(1);
}

static enum op choose(struct rng *r)
{
	unsigned int sum = 0, i, pick;

	for (i = 0; i < NR_OPS; i++)
		sum += ops[i].weight;
	pick = (unsigned int)below(r, sum);
	for (i = 0; pick >= ops[i].weight; i++)
		pick -= ops[i].weight;
	return (enum op)i;
}

static ssize_t write_vector(uint8_t *buf, uint64_t pos, uint64_t len,
			    struct rng *r)
{
	struct iovec iov[8];
	uint64_t off = 0;
	int n = 0;

	while (off < len) {
		uint64_t part = sector * (1 + below(r, 8));

		if (part > len - off || n == 7)
			part = len - off;
		iov[n].iov_base = buf + off;
		iov[n++].iov_len = part;
		off += part;
	}
	return pwritev(direct_fd, iov, n, (off_t)pos);
}

static int mapped(uint8_t *buf, uint64_t pos, uint64_t len, int write)
{
	uint64_t start = pos & ~(uint64_t)4095;
	uint8_t *map = mmap(NULL, pos + len - start,
			    write ? PROT_READ | PROT_WRITE : PROT_READ,
			    MAP_SHARED, buffered_fd, (off_t)start);

	if (map == MAP_FAILED)
		return -1;
	if (write)
		memcpy(map + (pos - start), buf, len);
	else
		memcpy(buf, map + (pos - start), len);
	return munmap(map, pos + len - start);
}

static int range_is_zero(uint64_t pos, uint64_t len)
{
	uint8_t *buf = aligned(len);
	uint64_t i;

	must(pread(direct_fd, buf, len, (off_t)pos), len, READ_DIRECT, pos);
	for (i = 0; i < len && !buf[i]; i++)
		;
	free(buf);
	return i == len;
}

static void one(struct rng *r, unsigned int n, uint64_t from, uint64_t size,
		uint8_t *buf)
{
	enum op op = choose(r);
	uint64_t sectors = size / sector, pos, len,
		 max = MAXIO / sector ? MAXIO / sector : 1;
	uint64_t range[2];
	ssize_t ret = 0;
	int zero = 0, err;

	if (rest_ms && n % BURST == BURST_CHANGES)
		usleep(rest_ms * 1000);
	if (rest_ms && n % BURST >= BURST_CHANGES)
		while (op >= DISCARD && op <= WRITE_ZEROES)
			op = choose(r);

	/* Mostly small, at times as long as it gets */
	len = 1 + below(r, below(r, 4) ? 16 : max);
	if (op >= DISCARD && op <= WRITE_ZEROES && !below(r, 4))
		len = 1 + below(r, sectors);
	if (len > sectors)
		len = sectors;
	pos = below(r, sectors - len + 1);
	/*
	 * as often as not on a 4 KiB boundary, where the two halves of a page
	 * don't meet
	 */
	if (below(r, 2) && sector < 4096)
		pos &= ~(4096 / sector - 1);
	pos = from + pos * sector;
	len *= sector;
	if (op < DISCARD && len > MAXIO && len > sector)
		len = MAXIO;

	/*
	 * Refused or not, the kernel zeroes what it has cached of a page that
	 * the range covers in part.
	 */
	if (no_holes && ops[op].optional) {
		len = (len + pos % 4096 + 4095) & ~(uint64_t)4095;
		pos &= ~(uint64_t)4095;
		if (len > from + size - pos)
			len = from + size - pos;
	}

	past[npast++ % HISTORY] = (struct past){ n, op, pos, len, 0 };
	range[0] = pos;
	range[1] = len;
	if (op >= WRITE_DIRECT && op <= WRITE_DSYNC) {
		fill_pattern(buf, pos, len, rnd(r));
		/*
		 * at times data that is zeroes: a driver might be clever about
		 * these
		 */
		if (!below(r, 16))
			memset(buf, 0, len);
	}
	if (no_holes && ops[op].optional)
		must(sync_file_range(buffered_fd, (off_t)pos, (off_t)len,
				     SYNC_FILE_RANGE_WRITE |
					     SYNC_FILE_RANGE_WAIT_AFTER),
		     0, SYNC_RANGE, pos);
	errno = 0;
	switch (op) {
	case READ_DIRECT:
		must(pread(direct_fd, buf, len, (off_t)pos), len, op, pos);
		compare(ops[op].name, buf, pos, len);
		break;
	case READ_BUFFERED:
		must(pread(buffered_fd, buf, len, (off_t)pos), len, op, pos);
		compare(ops[op].name, buf, pos, len);
		break;
	case READ_MAPPED:
		must(mapped(buf, pos, len, 0), 0, op, pos);
		compare(ops[op].name, buf, pos, len);
		break;
	case WRITE_DIRECT:
		must(pwrite(direct_fd, buf, len, (off_t)pos), len, op, pos);
		break;
	case WRITE_BUFFERED:
		must(pwrite(buffered_fd, buf, len, (off_t)pos), len, op, pos);
		break;
	case WRITE_MAPPED:
		must(mapped(buf, pos, len, 1), 0, op, pos);
		break;
	case WRITE_VECTOR:
		must(write_vector(buf, pos, len, r), len, op, pos);
		break;
	case WRITE_DSYNC: {
		struct iovec iov = { buf, len };

		must(pwritev2(below(r, 2) ? direct_fd : buffered_fd, &iov, 1,
			      (off_t)pos, RWF_DSYNC),
		     len, op, pos);
		break;
	}
	case DISCARD:
		ret = ioctl(direct_fd, BLKDISCARD, range);
		zero = 1;
		break;
	case ZEROOUT:
		ret = ioctl(direct_fd, BLKZEROOUT, range);
		zero = 1;
		break;
	case PUNCH:
		ret = fallocate(direct_fd,
				FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				(off_t)pos, (off_t)len);
		zero = 1;
		break;
	case ZERO_RANGE:
		ret = fallocate(direct_fd, FALLOC_FL_ZERO_RANGE, (off_t)pos,
				(off_t)len);
		zero = 1;
		break;
	case WRITE_ZEROES:
		ret = fallocate(direct_fd, FALLOC_FL_WRITE_ZEROES, (off_t)pos,
				(off_t)len);
		zero = 1;
		break;
	case FSYNC:
		must(fsync(direct_fd), 0, op, pos);
		break;
	case FDATASYNC:
		must(fdatasync(buffered_fd), 0, op, pos);
		break;
	case SYNC_RANGE:
		must(sync_file_range(buffered_fd, (off_t)pos, (off_t)len,
				     SYNC_FILE_RANGE_WRITE |
					     SYNC_FILE_RANGE_WAIT_AFTER),
		     0, op, pos);
		break;
	case FLSBUF:
		must(ioctl(buffered_fd, BLKFLSBUF, 0), 0, op, pos);
		break;
	case REOPEN:
		close_dev();
		open_dev();
		break;
	case NR_OPS:
		break;
	}
	err = errno;
	if (ret < 0 && ops[op].optional && err == EOPNOTSUPP) {
		past[(npast - 1) % HISTORY].err = err;
		refused[op]++;
		return;
	}
	if (ret < 0)
		must(ret, 0, op, pos);
	done[op]++;
	if (op == DISCARD && no_holes && !range_is_zero(pos, len))
		return;
	if (zero)
		memset(model + pos, 0, len);
	else if (op >= WRITE_DIRECT && op <= WRITE_DSYNC)
		memcpy(model + pos, buf, len);
}

/*
 * For the test of the test: one byte of the image changes behind the device's
 * back
 */
static void tamper(void)
{
	uint64_t pos = dev_size / 2;
	uint8_t byte;
	int fd = open(image_path, O_RDWR);

	if (fd < 0 || pread(fd, &byte, 1, (off_t)(image_off + pos)) != 1)
		die("%s: %s", image_path, strerror(errno));
	byte ^= 0x40;
	if (pwrite(fd, &byte, 1, (off_t)(image_off + pos)) != 1 || fsync(fd))
		die("%s: %s", image_path, strerror(errno));
	close(fd);
}

static void region(unsigned int job, unsigned int jobs)
{
	struct rng r = { mix(seed * 1000003 + job) };
	uint64_t size = dev_size / jobs & ~(uint64_t)65535, from = size * job;
	uint8_t *buf = aligned(MAXIO > sector ? MAXIO : sector);
	uint64_t i;

	/* The last region also has the odd end of the device. */
	if (job == jobs - 1)
		size = dev_size - from;
	open_dev();
	for (i = 0; i < nr_ops; i++) {
		one(&r, (unsigned int)i, from, size, buf);
	}
	close_dev();
	if (verbose)
		for (i = 0; i < NR_OPS; i++)
			printf("  job %u: %-16s %6ju done %6ju refused\n", job,
			       ops[i].name, (uintmax_t)done[i],
			       (uintmax_t)refused[i]);
	exit(0);
}

int main(int argc, char **argv)
{
	unsigned int jobs = 1, j, bad = 0;
	int opt, status, ssz, tamper_with = 0;
	double t0 = seconds();

	while ((opt = getopt(argc, argv, "f:o:n:s:j:r:tDv")) != -1) {
		switch (opt) {
		case 'f':
			image_path = optarg;
			break;
		case 'o':
			image_off = bytes(optarg);
			break;
		case 'n':
			nr_ops = bytes(optarg);
			break;
		case 's':
			seed = strtoull(optarg, NULL, 0);
			break;
		case 'j':
			jobs = (unsigned int)atoi(optarg);
			break;
		case 'r':
			rest_ms = (unsigned int)atoi(optarg);
			break;
		case 't':
			tamper_with = 1;
			break;
		case 'D':
			no_holes = 1;
			break;
		case 'v':
			verbose = 1;
			break;
		default:
			die("devfsx [-f IMAGE] [-o IMAGE-OFFSET] [-n OPS] [-s SEED] [-j JOBS] [-r MS] [-t] [-D] [-v] DEVICE");
		}
	}
	if (optind + 1 != argc || !jobs)
		die("devfsx: one device");
	dev_path = argv[optind];
	open_dev();
	if (ioctl(direct_fd, BLKGETSIZE64, &dev_size) ||
	    ioctl(direct_fd, BLKSSZGET, &ssz))
		die("%s: %s", dev_path, strerror(errno));
	sector = (uint64_t)ssz;
	dev_size -= dev_size % sector;
	if (dev_size < (uint64_t)jobs << 16 || dev_size > 1 << 30)
		die("%s: %ju bytes: too small or too big", dev_path,
		    (uintmax_t)dev_size);

	/*
	 * The device may come with contents: the model begins as what is there.
	 */
	model = mmap(NULL, dev_size, PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (model == MAP_FAILED)
		die("no memory");
	for (uint64_t pos = 0, n; pos < dev_size; pos += n) {
		uint8_t *buf = aligned(1 << 20);

		n = dev_size - pos < 1 << 20 ? dev_size - pos : 1 << 20;
		must(pread(direct_fd, buf, n, (off_t)pos), n, READ_DIRECT, pos);
		memcpy(model + pos, buf, n);
		free(buf);
	}
	close_dev();

	for (j = 0; j < jobs; j++) {
		pid_t pid = fork();

		if (!pid)
			region(j, jobs);
		if (pid < 0)
			die("fork: %s", strerror(errno));
	}
	while (wait(&status) > 0)
		bad += !!status;
	if (bad)
		return 1;

	open_dev();
	if (fsync(buffered_fd))
		die("%s: fsync: %s", dev_path, strerror(errno));
	if (tamper_with)
		tamper();
	compare_all(dev_path, O_DIRECT, 0);
	if (ioctl(buffered_fd, BLKFLSBUF, 0))
		die("%s: BLKFLSBUF: %s", dev_path, strerror(errno));
	compare_all(dev_path, 0, 0);
	if (image_path)
		compare_all(image_path, 0, image_off);
	close_dev();
	printf("%s: %ju ops by %u, sector %ju, seed %ju: right, %.1f s\n",
	       dev_path, (uintmax_t)(nr_ops * jobs), jobs, (uintmax_t)sector,
	       (uintmax_t)seed, seconds() - t0);
	return 0;
}
