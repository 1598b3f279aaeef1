// SPDX-License-Identifier: GPL-2.0
/*
 * A file system's user that remembers which data was reported durable.
 *
 *   fsyncer work DIR COUNT SEED [DM-NAME]
 *	writes COUNT rounds of files; a round whose fsyncs have returned is
 *	marked in the log of the dm-log-writes device DM-NAME. Between rounds
 *	it reads a character from standard input, until that ends: who writes
 *	there makes sure of a turn of its own in each round
 *   fsyncer check DIR ROUNDS SEED
 *	everything of the first ROUNDS rounds is there and right
 *
 * A round: two files of odd sizes written, one made durable by fsync, one by
 * O_SYNC; a record in the file "rolling", overwritten in place by RWF_DSYNC; a
 * third file: fdatasync, a rename, the removal of an earlier round's third
 * file, and fsync of the folder; and on top of it files that are never synced
 * and never checked, so that the file system always has something that isn't
 * durable yet.
 */
#include <fcntl.h>
#include <linux/dm-ioctl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "common.h"

#define KEPT 3	/* rounds after which the third file goes away */

static uint64_t seed;

static int at(int dir, const char *name, int flags)
{
	int fd = openat(dir, name, flags | O_CLOEXEC, 0644);

	if (fd < 0)
		die("%s: %s", name, strerror(errno));
	return fd;
}

static size_t size_of(unsigned int round, unsigned int file)
{
	return 8 * (1 + mix(seed * 131 + round * 3 + file) %
				(file == 1 ? 500 : 12000));
}

static uint64_t seed_of(unsigned int round, unsigned int file)
{
	return seed * 1000003 + round * 16 + file;
}

static void put(int fd, unsigned int round, unsigned int file)
{
	size_t len = size_of(round, file);
	uint8_t *buf = aligned(len);

	fill_pattern(buf, 0, len, seed_of(round, file));
	if (write(fd, buf, len) != (ssize_t)len)
		die("write: %s", strerror(errno));
	free(buf);
}

static void mark(const char *dm, unsigned int round)
{
	union {
		struct dm_ioctl io;
		char room[1024];
	} u = {};
	struct dm_target_msg *msg =
		(struct dm_target_msg *)(u.room + sizeof(u.io));
	int ctl = open("/dev/mapper/control", O_RDWR | O_CLOEXEC);

	if (ctl < 0)
		die("/dev/mapper/control: %s", strerror(errno));
	u.io.version[0] = DM_VERSION_MAJOR;
	u.io.data_size = sizeof(u.room);
	u.io.data_start = sizeof(u.io);
	snprintf(u.io.name, sizeof(u.io.name), "%s", dm);
	snprintf(msg->message, 64, "mark %u", round);
	if (ioctl(ctl, DM_TARGET_MSG, &u))
		die("%s: mark: %s", dm, strerror(errno));
	close(ctl);
}

static void noise(int dir, unsigned int round)
{
	char name[32];
	int fd;

	snprintf(name, sizeof(name), "noise.%u", round);
	fd = at(dir, name, O_CREAT | O_WRONLY);
	put(fd, round, 7);
	if (ftruncate(fd, (off_t)size_of(round, 7) / 3))
		die("ftruncate: %s", strerror(errno));
	close(fd);
	snprintf(name, sizeof(name), "noise.%u", round - 2);
	unlinkat(dir, name, 0);
}

static void work(int dir, unsigned int round)
{
	uint64_t record[64] = { round };
	struct iovec iov = { record, sizeof(record) };
	char name[32], to[32];
	int fd;

	snprintf(name, sizeof(name), "a.%u", round);
	fd = at(dir, name, O_CREAT | O_WRONLY);
	put(fd, round, 0);
	noise(dir, round);
	if (fsync(fd) || close(fd))
		die("%s: fsync: %s", name, strerror(errno));

	snprintf(name, sizeof(name), "b.%u", round);
	fd = at(dir, name, O_CREAT | O_WRONLY | O_SYNC);
	put(fd, round, 1);
	close(fd);

	fd = at(dir, "rolling", O_WRONLY);
	if (pwritev2(fd, &iov, 1, 512 * (round % 8), RWF_DSYNC) !=
	    sizeof(record))
		die("rolling: %s", strerror(errno));
	close(fd);

	/*
	 * Last: this rests on the journal's commit, behind which comes no
	 * flush.
	 */
	snprintf(name, sizeof(name), "temporary.%u", round);
	snprintf(to, sizeof(to), "c.%u", round);
	fd = at(dir, name, O_CREAT | O_WRONLY);
	put(fd, round, 2);
	if (fdatasync(fd) || close(fd) || renameat(dir, name, dir, to))
		die("%s: %s", name, strerror(errno));
	if (round > KEPT) {
		snprintf(name, sizeof(name), "c.%u", round - KEPT);
		if (unlinkat(dir, name, 0))
			die("%s: %s", name, strerror(errno));
	}
	if (fsync(dir))
		die("fsync of the folder: %s", strerror(errno));
}

static void check_file(int dir, const char *kind, unsigned int round,
		       unsigned int file)
{
	size_t len = size_of(round, file);
	uint8_t *buf = aligned(len + 8);
	char name[32];
	ssize_t n;
	int fd;

	snprintf(name, sizeof(name), "%s.%u", kind, round);
	fd = at(dir, name, O_RDONLY);
	n = read(fd, buf, len + 8);
	if (n != (ssize_t)len)
		die("%s: %zd bytes, must be %zu%s%s", name, n, len,
		    n < 0 ? ": " : "", n < 0 ? strerror(errno) : "");
	if (check_pattern(buf, 0, len, seed_of(round, file)) >= 0)
		die("%s: wrong from byte %jd on", name,
		    (intmax_t)check_pattern(buf, 0, len, seed_of(round, file)));
	close(fd);
	free(buf);
}

static void check(int dir, unsigned int rounds)
{
	unsigned int i, newest = 0;
	uint64_t record[64];
	char name[32];
	int fd;

	for (i = 1; i <= rounds; i++) {
		check_file(dir, "a", i, 0);
		check_file(dir, "b", i, 1);
		snprintf(name, sizeof(name), "c.%u", i);
		if (i + KEPT <= rounds && !faccessat(dir, name, F_OK, 0))
			die("%s: back again after its removal was made durable",
			    name);
		/* The next round may have got as far as its removal. */
		if (i + KEPT > rounds + 1)
			check_file(dir, "c", i, 2);
	}
	fd = at(dir, "rolling", O_RDONLY);
	for (i = 0; i < 8; i++) {
		if (pread(fd, record, sizeof(record), 512 * i) !=
		    sizeof(record))
			die("rolling: %s", strerror(errno));
		if (record[0] > newest)
			newest = (unsigned int)record[0];
	}
	/* The round after the marked one may have begun. */
	if (newest < rounds || newest > rounds + 1)
		die("rolling: the newest record is of round %u, must be %u",
		    newest, rounds);
	close(fd);
}

int main(int argc, char **argv)
{
	unsigned int count, i;
	int dir, fd;

	if (argc < 5 || (strcmp(argv[1], "work") && strcmp(argv[1], "check")))
		die("fsyncer work DIR COUNT SEED [DM-NAME], fsyncer check DIR ROUNDS SEED");
	dir = open(argv[2], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		die("%s: %s", argv[2], strerror(errno));
	count = (unsigned int)atoi(argv[3]);
	seed = strtoull(argv[4], NULL, 0);
	if (!strcmp(argv[1], "check")) {
		check(dir, count);
		printf("%s: %u rounds: right\n", argv[2], count);
		return 0;
	}
	fd = at(dir, "rolling", O_CREAT | O_WRONLY);
	for (i = 0; i < 8; i++) {
		uint64_t record[64] = {};

		if (write(fd, record, sizeof(record)) != sizeof(record))
			die("rolling: %s", strerror(errno));
	}
	if (fsync(fd) || fsync(dir) || close(fd))
		die("rolling: %s", strerror(errno));
	if (argc > 5)
		mark(argv[5], 0);
	for (i = 1; i <= count; i++) {
		work(dir, i);
		if (argc > 5)
			mark(argv[5], i);
		(void)getchar();
	}
	return 0;
}
