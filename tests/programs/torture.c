// SPDX-License-Identifier: GPL-2.0
/*
 * The guard under torture: everything that may move or change an image's
 * blocks, while the device is in full use.
 *
 *   torture -i [-s SEED] IMAGE SIZE
 *	make the image of a device of SIZE bytes, before it is attached
 *   torture [-s SEED] [-t SECONDS] [-n OPERATIONS] [-j THREADS] [-x THREADS]
 *	[-q DEPTH] [-g BLOCKS] [-w MS] [-W SECONDS] [-k OP,OP..] [-K OP,OP..]
 *	[-d DISCARDS] [-e] [-r] [-b] [-o] DEVICE IMAGE
 *
 * Every sector of 512 bytes says whose it is: of which run, what place, which
 * generation (stamp.h). The first three quarters of the device are protected:
 * each sector has one thread that writes it, and at any time it holds what was
 * written last. The rest is sacrificed: others change it in the image too, and
 * it may hold data of theirs, or zeroes, but nothing else. The device leaves
 * the last quarter of that to them: what they write there through the page
 * cache collides with direct I/O to the same place, and the kernel reports an
 * EIO for the I/O (iomap: IOMAP_DELALLOC) or for the next fsync
 * (dio_warn_stale_pagecache()). Behind the device's end the image has a tail
 * that comes and goes.
 *
 * Hostile threads do to the image, in bursts, what a file system has to offer.
 * Above all they move the protected blocks (EXT4_IOC_MOVE_EXT, reflink and
 * dedupe, exchange of ranges), which keeps their content. Then they fill at
 * once the blocks that the image had with stamps of their own, the vulture's.
 * A write by an old map is found there, and a read by an old map finds them.
 * Between bursts the image is left alone until it is mapped again.
 *
 * The disk gets nothing while its file system is frozen.
 *
 *   -t, -n	how long, and how many operations at most
 *   -j, -x	threads of the device's I/O, and hostile ones
 *   -q		I/Os in flight of each thread
 *   -g		changes come in so many blocks, for a map that isn't too fine
 *   -w		milliseconds that the disk takes for a write: the windows for
 *		I/O in flight are as long
 *   -W		seconds that anything may take
 *   -k, -K	these operations only, and not these
 *   -d		of 1000 batches of I/O so many are a discard, after which
 *		nothing is mapped for a while
 *   -e		bursts begin as soon as an epoch does
 *   -r		the device is read-only
 *   -b		the guard is known to be broken
 *   -o		who opens the image to write waits for mapped I/O (O_NONBLOCK:
 *		EAGAIN), as where blocks are shared
 *
 * torture/ has the parts: device.c its I/O, vulture.c who takes what is freed,
 * operations.c the hostile threads, read.c, space.c, remap.c and around.c
 * their operations, tasks.c the watchdog.
 */
#include <linux/fs.h>
#include <linux/loop.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>

#include "torture/torture.h"

const char *device, *image;
char dir[256], sysfs[256], disk_stat[64];
uint64_t run, seed = 1, size, prot, others;	/* sizes are in bytes */
unsigned int jobs = 2, depth = 8, discards_of_1000 = 4, slow, patience = 90;
unsigned int chunks, sector_size, grain = 1;
bool read_only, broken_rules, at_once, openers_wait;
int mount_fd;
struct file_handle *handle;
atomic_bool stopping, leaving, calm;
atomic_uint open_ops;
atomic_int busy;
_Atomic uint32_t *done, *issued;
atomic_uint *chunk_users, *chunk_taken;
atomic_ulong reads, writes, fuas, flushes, discards, nowaits, agains, no_space;
atomic_ulong kept_bytes, stale_for_a_moment;

static unsigned int hostiles = 3;
static unsigned long bursts;
static double waited_to_map, waited_to_end;

/* Report an error, and end all of it. */
__attribute__((format(printf, 1, 2), noreturn))
void fail(const char *fmt, ...)
{
	static atomic_bool failed;
	va_list ap;

	end_freezing();
	if (atomic_exchange(&failed, true))
		for (;;)
			pause();
	printf("TORTURE FAILED: ");
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf(" (seed %ju)\n", (uintmax_t)seed);
	fflush(stdout);
	_exit(1);
}

/* Wait until @enough of the image is mapped. */
static void wait_mapped(uint64_t enough)
{
	double start = seconds(), ask = start + 0.15, now;

	calm = true;
	while ((now = seconds()) < start + 1.5 &&
	       !(read_attr("mapped") && read_stat("mapped_bytes") >= enough)) {
		/* It waits longer and longer; from the start not. */
		if (now > ask && !read_attr("mapped")) {
			write_attr("mapping", "0");
			write_attr("mapping", "1");
			ask = start + 10;
		}
		usleep(2000);
	}
	calm = false;
	waited_to_map += seconds() - start;
}

/*
 * Leave the image alone until it is mapped and that has been of use, then let
 * the hostile threads act.
 */
static void burst(struct rng *r, unsigned int allowed)
{
	uint64_t mapped, ios, most;
	double start;
	bool few;

	/* At times in the middle of being mapped. */
	wait_mapped(at_once ? 0 : below(r, 4) ? size / 4 : below(r, 2));
	mapped = read_stat("ios_mapped");
	ios = !at_once && below(r, 5) ? below(r, 60) : 0;
	for (start = seconds();
	     read_stat("ios_mapped") < mapped + ios && seconds() < start + 0.2;)
		usleep(1000);

	/*
	 * Two times in three one thing only, and nothing that breaks the lease
	 * before it.
	 */
	few = broken_rules || below(r, 5);
	most = operations + 1 + below(r, few ? 16 : 1000);
	open_ops = below(r, 3) ? 1U << pick_op(r, allowed) : allowed;
	for (start = seconds();
	     operations < most && seconds() < start + (few ? 0.3 : 3);)
		usleep(500);
	open_ops = 0;
	bursts++;
	start = seconds();
	while (busy > 0)
		usleep(500);
	waited_to_end += seconds() - start;
}

static void find_out(void)
{
	const char *slash = strrchr(image, '/');
	int mount_id, fd;
	struct stat st;

	snprintf(dir, sizeof(dir), "%.*s", slash ? (int)(slash - image) : 1,
		 slash ? image : ".");
	mount_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	handle = malloc(sizeof(*handle) + MAX_HANDLE_SZ);
	if (mount_fd < 0 || !handle)
		die("%s: %s", dir, strerror(errno));
	handle->handle_bytes = MAX_HANDLE_SZ;
	if (name_to_handle_at(AT_FDCWD, image, handle, &mount_id, 0) ||
	    stat(image, &st))
		die("%s: %s", image, strerror(errno));
	snprintf(disk_stat, sizeof(disk_stat), "/sys/dev/block/%u:%u/stat",
		 major(st.st_dev), minor(st.st_dev));
	snprintf(sysfs, sizeof(sysfs), "/sys/block/%s/loop",
		 strrchr(device, '/') + 1);
	fd = open(device, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || ioctl(fd, BLKGETSIZE64, &size) ||
	    ioctl(fd, BLKSSZGET, &sector_size))
		die("%s: %s", device, strerror(errno));
	close(fd);
}

/* What the device's loop/stat has counted */
struct counted {
	uint64_t mapped, file, begun, broken;
};

static struct counted count(void)
{
	return (struct counted){
		.mapped = read_stat("ios_mapped"),
		.file = read_stat("ios_file"),
		.begun = read_stat("epochs_begun"),
		.broken = read_stat("epochs_broken"),
	};
}

static void report(double took, const struct counted *before)
{
	struct counted now = count();
	unsigned long ios = reads + writes + flushes + discards;
	uint64_t mapped = now.mapped - before->mapped;
	uint64_t file = now.file - before->file;

	printf("%.1f s: %lu hostile operations (%.0f a second) in %lu bursts; epochs: %ju begun, %ju broken\n",
	       took, operations, (double)operations / took, bursts,
	       (uintmax_t)(now.begun - before->begun),
	       (uintmax_t)(now.broken - before->broken));
	printf("I/O: %lu reads, %lu writes (%lu FUA), %lu flushes, %lu discards, %lu NOWAIT (%lu again), %.0f a second; mapped %ju, by the file %ju: %ju%%\n",
	       reads, writes, fuas, flushes, discards, nowaits, agains,
	       (double)ios / took, (uintmax_t)mapped, (uintmax_t)file,
	       (uintmax_t)(mapped * 100 / (mapped + file + 1)));
	printf("waited %.1f s for the image to be mapped, %.1f s for operations to end\n",
	       waited_to_map, waited_to_end);
	printf("the vulture wrote %lu MiB; a cached page was older than the disk for a moment: %lu times; no space at once: %lu times\n",
	       kept_bytes >> 20, stale_for_a_moment, no_space);
	report_operations();
	fflush(stdout);
	if (!broken_rules && (!mapped || now.broken == before->broken))
		fail("nothing was mapped, or nothing broken: such a run shows nothing");
}

/* The parts of the device, whose size is known */
static void begin_parts(void)
{
	prot = size / 4 * 3 / CHUNK * CHUNK;
	others = size - (size - prot) / 4 / CHUNK * CHUNK;
	chunks = (unsigned int)(prot / CHUNK);
}

static void begin_generations(void)
{
	uint64_t sectors = prot / SECTOR, i;

	done = malloc(sectors * sizeof(*done));
	issued = malloc(sectors * sizeof(*issued));
	chunk_users = calloc(chunks, sizeof(*chunk_users));
	chunk_taken = calloc(chunks, sizeof(*chunk_taken));
	if (!done || !issued || !chunk_users || !chunk_taken || chunks < jobs)
		die("no memory, or too small a device");
	for (i = 0; i < sectors; i++) {
		done[i] = 2;
		issued[i] = 2;
	}
}

static void run_all(double limit, uint64_t most, unsigned int allowed)
{
	struct rng r = { mix(seed * 100 + 55) };
	pthread_t watchdog, first[32], last[32];
	unsigned int nr_first = 0, nr_last = 0, i;
	struct counted before = count();
	double begin = seconds();

	pthread_create(&watchdog, NULL, watchdog_thread, NULL);
	for (i = 0; i < jobs; i++)
		pthread_create(&last[nr_last++], NULL, io_thread,
			       (void *)(uintptr_t)i);
	pthread_create(&last[nr_last++], NULL, sacrifice_thread, NULL);
	for (i = 0; i < hostiles; i++)
		pthread_create(&first[nr_first++], NULL, hostile_thread,
			       (void *)(uintptr_t)i);
	pthread_create(&first[nr_first++], NULL, vulture_thread, NULL);
	while (seconds() - begin < limit && operations < most)
		burst(&r, allowed);
	stopping = true;
	while (nr_first)
		pthread_join(first[--nr_first], NULL);
	leaving = true;
	while (nr_last)
		pthread_join(last[--nr_last], NULL);

	last_look(device, prot, done, aligned(CHUNK));
	last_look(image, prot, done, aligned(CHUNK));
	report(seconds() - begin, &before);
}

int main(int argc, char **argv)
{
	static const char usage[] =
		"torture -i [-s SEED] IMAGE SIZE\n"
		"torture [-s SEED] [-t SECONDS] [-n OPERATIONS] [-j THREADS] [-x THREADS] [-q DEPTH] [-g BLOCKS] [-w MS] [-W SECONDS] [-k OP,OP..] [-K OP,OP..] [-d DISCARDS] [-e] [-r] [-b] [-o] DEVICE IMAGE";
	unsigned int allowed = ~0U, without = 0;
	uint64_t limit = 20, most = UINT64_MAX;
	bool init = false;
	int opt;

	for (;;) {
		opt = getopt(argc, argv, "is:t:n:j:x:q:g:w:W:k:K:d:erbo");
		if (opt < 0)
			break;
		switch (opt) {
		case 'i': init = true; break;
		case 's': seed = strtoull(optarg, NULL, 0); break;
		case 't': limit = strtoull(optarg, NULL, 0); break;
		case 'n': most = strtoull(optarg, NULL, 0); break;
		case 'j': jobs = (unsigned int)atoi(optarg); break;
		case 'x': hostiles = (unsigned int)atoi(optarg); break;
		case 'q': depth = (unsigned int)atoi(optarg); break;
		case 'g': grain = (unsigned int)atoi(optarg); break;
		case 'w': slow = (unsigned int)atoi(optarg); break;
		case 'W': patience = (unsigned int)atoi(optarg); break;
		case 'K': without = (unsigned int)parse_ops(optarg); break;
		case 'k': allowed = (unsigned int)parse_ops(optarg); break;
		case 'd': discards_of_1000 = (unsigned int)atoi(optarg); break;
		case 'r': read_only = true; break;
		case 'e': at_once = true; break;
		case 'b': broken_rules = true; break;
		case 'o': openers_wait = true; break;
		default: die("%s", usage);
		}
	}
	if (optind + 2 != argc || !jobs || jobs > JOBS_MOST || hostiles > 16 ||
	    !grain || grain > 16 || !depth || depth > DEPTH_MOST)
		die("%s", usage);
	run = mix(seed);
	if (init) {
		image = argv[optind];
		size = bytes(argv[optind + 1]) / CHUNK * CHUNK;
		begin_parts();
		prepare_image(image, prot, size, aligned(CHUNK));
		return 0;
	}
	device = argv[optind];
	image = argv[optind + 1];
	find_out();
	begin_parts();
	begin_generations();
	allowed &= ops_here() & ~without;
	if (!allowed)
		die("torture: none of these operations can be had here");
	run_all((double)limit, most, allowed);
	return 0;
}
