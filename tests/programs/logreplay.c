// SPDX-License-Identifier: GPL-2.0
/*
 * Read and replay the log of dm-log-writes, as the kernel's log-writes.rst and
 * dm-log-writes.c describe it.
 *
 *   logreplay list LOG
 *	every entry
 *   logreplay points LOG
 *	the flushes, FUA writes and marks: NUMBER KIND LAST-MARK
 *   logreplay run LOG TARGET FROM TO
 *	entries FROM up to but not including TO
 *	-t SEED: and then, of the writes after TO and before the next flush, a
 *	part chosen by the seed: a disk may have written any of its cache when
 *	the power fails
 *	-l N: lose every Nth write that is not FUA: what a driver does that
 *	doesn't flush (for the test of the test)
 */
#include <endian.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>

#include "common.h"

#define MAGIC 0x6a736677736872ULL

enum { FLUSH = 1, FUA = 2, DISCARD = 4, MARK = 8 };

struct super {
	uint64_t magic, version, nr_entries;
	uint32_t sectorsize;
};

struct entry {
	uint64_t sector, nr_sectors, flags, data_len;
};

static int log_fd;
static struct super super;

static void read_at(void *buf, size_t len, uint64_t pos)
{
	ssize_t n = pread(log_fd, buf, len, (off_t)pos);

	if (n != (ssize_t)len)
		die("the log at byte %ju: %s", (uintmax_t)pos,
		    n < 0 ? strerror(errno) : "it ends");
}

static void open_log(const char *path)
{
	log_fd = open(path, O_RDONLY | O_CLOEXEC);
	if (log_fd < 0)
		die("%s: %s", path, strerror(errno));
	read_at(&super, sizeof(super), 0);
	super.magic = le64toh(super.magic);
	super.version = le64toh(super.version);
	super.nr_entries = le64toh(super.nr_entries);
	super.sectorsize = le32toh(super.sectorsize);
	if (super.magic != MAGIC || super.version != 1)
		die("%s: not a log of dm-log-writes", path);
}

/*
 * The entry at *pos, the byte where its data begins in @data; moves *pos to the
 * next.
 */
static struct entry next(uint64_t *pos, uint64_t *data, char *mark)
{
	uint8_t buf[65536];
	struct entry e;

	read_at(buf, super.sectorsize, *pos);
	memcpy(&e, buf, sizeof(e));
	e.sector = le64toh(e.sector);
	e.nr_sectors = le64toh(e.nr_sectors);
	e.flags = le64toh(e.flags);
	e.data_len = le64toh(e.data_len);
	*mark = 0;
	if (e.flags & MARK && e.data_len < super.sectorsize - sizeof(e)) {
		memcpy(mark, buf + sizeof(e), e.data_len);
		mark[e.data_len] = 0;
	}
	*data = *pos + super.sectorsize;
	*pos = *data;
	if (!(e.flags & DISCARD))
		*pos += e.nr_sectors * super.sectorsize;
	return e;
}

static void apply(int target, const struct entry *e, uint64_t data)
{
	uint64_t len = e->nr_sectors * super.sectorsize,
		 to = e->sector * super.sectorsize, off;
	static uint8_t buf[1 << 20];

	if (e->flags & MARK || !len)
		return;
	if (e->flags & DISCARD) {
		uint64_t range[2] = { to, len };

		if (ioctl(target, BLKZEROOUT, range))
			die("zeroes at %ju: %s", (uintmax_t)to,
			    strerror(errno));
		return;
	}
	for (off = 0; off < len; off += sizeof(buf)) {
		size_t n = len - off < sizeof(buf) ? len - off : sizeof(buf);

		read_at(buf, n, data + off);
		if (pwrite(target, buf, n, (off_t)(to + off)) != (ssize_t)n)
			die("write of %zu at %ju: %s", n, (uintmax_t)(to + off),
			    strerror(errno));
	}
}

static int run(const char *path, uint64_t from, uint64_t to, int torn,
	       uint64_t seed, uint64_t lose)
{
	uint64_t pos = super.sectorsize, data, i, writes = 0, lost = 0,
		 extra = 0;
	char mark[65536];
	int target = open(path, O_RDWR | O_CLOEXEC);
	struct rng r = { mix(seed) };

	if (target < 0)
		die("%s: %s", path, strerror(errno));
	for (i = 0; i < super.nr_entries; i++) {
		struct entry e = next(&pos, &data, mark);

		if (i < from)
			continue;
		if (i >= to) {
			if (!torn || e.flags & (FLUSH | MARK))
				break;
			if (!(e.flags & FUA) && rnd(&r) & 1)
				continue;
			extra++;
		}
		if (lose && !(e.flags & (FUA | MARK)) && e.nr_sectors &&
		    !(++writes % lose)) {
			lost++;
			continue;
		}
		apply(target, &e, data);
	}
	if (fsync(target) || close(target))
		die("%s: %s", path, strerror(errno));
	printf("%s: entries %ju..%ju", path, (uintmax_t)from, (uintmax_t)to);
	if (extra)
		printf(" and %ju writes after them", (uintmax_t)extra);
	if (lost)
		printf(" without %ju writes", (uintmax_t)lost);
	putchar('\n');
	return 0;
}

static int list(int all)
{
	uint64_t pos = super.sectorsize, data, i;
	char mark[65536], last[65536] = "none";

	for (i = 0; i < super.nr_entries; i++) {
		struct entry e = next(&pos, &data, mark);

		/* The last mark is the kernel's own. */
		if (e.flags & MARK && strcmp(mark, "dm-log-writes-end"))
			memcpy(last, mark, sizeof(last));
		if (all)
			printf("%ju %ju+%ju%s%s%s%s%s%s\n", (uintmax_t)i,
			       (uintmax_t)e.sector, (uintmax_t)e.nr_sectors,
			       e.flags & FLUSH ? " flush" : "",
			       e.flags & FUA ? " fua" : "",
			       e.flags & DISCARD ? " discard" : "",
			       e.flags & MARK ? " mark" : "", *mark ? " " : "",
			       mark);
		else if (e.flags & (FLUSH | FUA | MARK))
			printf("%ju %s %s\n", (uintmax_t)i + 1,
			       e.flags & MARK	 ? "mark"
			       : e.flags & FLUSH ? "flush"
						 : "fua",
			       last);
	}
	return 0;
}

int main(int argc, char **argv)
{
	uint64_t seed = 0, lose = 0;
	int opt, torn = 0;

	while ((opt = getopt(argc, argv, "t:l:")) != -1) {
		switch (opt) {
		case 't':
			torn = 1;
			seed = strtoull(optarg, NULL, 0);
			break;
		case 'l':
			lose = strtoull(optarg, NULL, 0);
			break;
		default:
			die("logreplay [-t SEED] [-l N] list|points|run LOG [TARGET FROM TO]");
		}
	}
	argc -= optind;
	argv += optind;
	if (argc < 2)
		die("logreplay: which log?");
	open_log(argv[1]);
	if (!strcmp(argv[0], "list"))
		return list(1);
	if (!strcmp(argv[0], "points"))
		return list(0);
	if (strcmp(argv[0], "run") || argc != 5)
		die("logreplay [-t SEED] [-l N] list|points|run LOG [TARGET FROM TO]");
	return run(argv[2], strtoull(argv[3], NULL, 0),
		   strtoull(argv[4], NULL, 0), torn, seed, lose);
}
