// SPDX-License-Identifier: GPL-2.0
/*
 * What a failing disk may and may not do to data.
 *
 *   ackio run DEVICE OPS SEED STATE
 *	writes (direct) and fsyncs, any of which may fail with EIO; keeps in the
 *	file STATE what each sector may be
 *   ackio check DEVICE STATE
 *	each sector is what it was when an fsync after it succeeded, or
 *	something that was written to it later
 */
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>

#include "common.h"

#define BLOCK 4096
#define SECTOR 512

struct block {
	/* the version that the disk has for sure; 0: what was there before */
	uint64_t durable;
	/*
	 * the newest version that a write has returned for, since the last
	 * fsync
	 */
	uint64_t acked;
	uint64_t newest;	/* the newest version that was tried at all */
};

static void stamp(uint8_t *buf, uint64_t block, uint64_t version)
{
	size_t i;

	fill_pattern(buf, block * BLOCK, BLOCK, version);
	for (i = 0; i < BLOCK; i += SECTOR)
		memcpy(buf + i, &version, 8);
}

int main(int argc, char **argv)
{
	uint64_t size, n, i, b, ops, good = 0, eio = 0, synced = 0, v;
	uint8_t *buf = aligned(BLOCK), *want = aligned(BLOCK);
	struct block *blocks;
	int fd, st, writes;
	struct rng r;

	writes = argc == 6 && !strcmp(argv[1], "run");
	if (!writes && (argc != 4 || strcmp(argv[1], "check")))
		die("ackio run DEVICE OPS SEED STATE, "
		    "ackio check DEVICE STATE");
	fd = open(argv[2], (writes ? O_RDWR : O_RDONLY) | O_DIRECT | O_CLOEXEC);
	if (fd < 0 || ioctl(fd, BLKGETSIZE64, &size))
		die("%s: %s", argv[2], strerror(errno));
	n = size / BLOCK;
	blocks = calloc(n, sizeof(*blocks));
	st = open(argv[writes ? 5 : 3], O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (st < 0 || read(st, blocks, n * sizeof(*blocks)) < 0)
		die("the state: %s", strerror(errno));

	if (writes) {
		ops = bytes(argv[3]);
		r.state = mix(strtoull(argv[4], NULL, 0));
		v = 0;
		for (b = 0; b < n; b++)
			if (blocks[b].newest > v)
				v = blocks[b].newest;
		for (i = 1; i <= ops; i++) {
			if (!below(&r, 16)) {
				int failed = fsync(fd);

				if (failed && errno != EIO)
					die("fsync: %s", strerror(errno));
				eio += !!failed;
				synced += !failed;
				for (b = 0; b < n; b++) {
					if (!failed && blocks[b].acked)
						blocks[b].durable =
							blocks[b].acked;
					/*
					 * A later fsync that succeeds says
					 * nothing about what this one lost.
					 */
					blocks[b].acked = 0;
				}
				continue;
			}
			b = below(&r, n);
			if (!below(&r, 4)) {
				if (pread(fd, buf, BLOCK, (off_t)(b * BLOCK)) ==
				    BLOCK)
					continue;
				if (errno != EIO)
					die("read of block %ju: %s",
					    (uintmax_t)b, strerror(errno));
				eio++;
				usleep(2000);
				continue;
			}
			stamp(buf, b, v + i);
			blocks[b].newest = v + i;
			if (pwrite(fd, buf, BLOCK, (off_t)(b * BLOCK)) ==
			    BLOCK) {
				blocks[b].acked = v + i;
				good++;
			} else if (errno == EIO) {
				/*
				 * Nothing is known now of this block but that
				 * it is not older than its durable version.
				 */
				blocks[b].acked = 0;
				eio++;
				usleep(2000);
			} else {
				die("write of block %ju: %s", (uintmax_t)b,
				    strerror(errno));
			}
		}
		if (pwrite(st, blocks, n * sizeof(*blocks), 0) !=
		    (ssize_t)(n * sizeof(*blocks)))
			die("the state: %s", strerror(errno));
		printf("writes=%ju fsyncs=%ju eio=%ju\n", (uintmax_t)good,
		       (uintmax_t)synced, (uintmax_t)eio);
		return 0;
	}

	for (b = 0; b < n; b++) {
		if (pread(fd, buf, BLOCK, (off_t)(b * BLOCK)) != BLOCK)
			die("read of block %ju: %s", (uintmax_t)b,
			    strerror(errno));
		for (i = 0; i < BLOCK; i += SECTOR) {
			memcpy(&v, buf + i, 8);
			if (!blocks[b].newest || (!blocks[b].durable && !v))
				continue;
			if (v < blocks[b].durable || v > blocks[b].newest)
				die("block %ju: version %ju, must be %ju to %ju",
				    (uintmax_t)b, (uintmax_t)v,
				    (uintmax_t)blocks[b].durable,
				    (uintmax_t)blocks[b].newest);
			stamp(want, b, v);
			if (memcmp(buf + i, want + i, SECTOR))
				die("block %ju: claims to be version %ju and isn't",
				    (uintmax_t)b, (uintmax_t)v);
			good++;
		}
	}
	printf("%ju sectors right\n", (uintmax_t)good);
	return 0;
}
