// SPDX-License-Identifier: GPL-2.0
/*
 * Writers of different blocks of the same page.
 *
 *   onepage DEVICE SIZE SECONDS
 *
 * The first block of 1 KiB of each page has been written; the other three are
 * holes. One thread writes to the holes of page after page, and makes holes of
 * them again; others write to the first block of the same page; another one
 * calls fsync. All of it is direct. Nothing may fail.
 */
#include <fcntl.h>
#include <linux/fs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/ioctl.h>

#include "common.h"

#define PAGE 4096U
#define BLOCK 1024U
#define WRITERS 4

static int fd;
static uint64_t pages;
static atomic_bool stop;
static _Atomic uint64_t current;
static atomic_ulong writes, holes, fsyncs;

static void *block_of(char byte)
{
	void *block = aligned(BLOCK);

	memset(block, byte, BLOCK);
	return block;
}

static void write_block(const void *block, uint64_t pos)
{
	if (pwrite(fd, block, BLOCK, (off_t)pos) != BLOCK)
		die("write at %ju: %s", (uintmax_t)pos, strerror(errno));
}

static void *write_first(void *arg)
{
	void *block = block_of('m');

	(void)arg;
	for (; !stop; writes++)
		write_block(block, current * PAGE);
	return NULL;
}

static void *write_holes(void *arg)
{
	void *block = block_of('h');
	uint64_t page, i;

	(void)arg;
	while (!stop) {
		for (page = 0; page < pages && !stop; page++) {
			current = page;
			for (i = 1; i < PAGE / BLOCK; i++, holes++)
				write_block(block, page * PAGE + i * BLOCK);
		}
		for (page = 0; page < pages && !stop; page++) {
			uint64_t range[] = { page * PAGE + BLOCK,
					     PAGE - BLOCK };

			if (ioctl(fd, BLKDISCARD, range))
				die("discard: %s", strerror(errno));
		}
	}
	return NULL;
}

static void *call_fsync(void *arg)
{
	(void)arg;
	for (; !stop; fsyncs++) {
		if (fsync(fd))
			die("fsync: %s", strerror(errno));
		usleep(20000);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[WRITERS + 2];
	unsigned int i;

	if (argc != 4)
		die("onepage DEVICE SIZE SECONDS");
	fd = open(argv[1], O_RDWR | O_DIRECT | O_CLOEXEC);
	if (fd < 0)
		die("%s: %s", argv[1], strerror(errno));
	pages = bytes(argv[2]) / PAGE;
	pthread_create(&threads[0], NULL, write_holes, NULL);
	pthread_create(&threads[1], NULL, call_fsync, NULL);
	for (i = 0; i < WRITERS; i++)
		pthread_create(&threads[2 + i], NULL, write_first, NULL);
	sleep((unsigned int)atoi(argv[3]));
	stop = true;
	for (i = 0; i < WRITERS + 2; i++)
		pthread_join(threads[i], NULL);
	printf("%lu writes to blocks, %lu to holes, %lu fsyncs\n", writes,
	       holes, fsyncs);
	return 0;
}
