// SPDX-License-Identifier: GPL-2.0
/*
 * Keep direct writes of a device in flight, remember what each block must hold,
 * and see that it does.
 *
 *   keeper write [-t THREADS] [-b BLOCK] [-o OFFSET] [-s SEED] [-e] [-f]
 *		-m MODEL DEVICE SIZE
 *	until SIGTERM, each thread in a part of its own; says "began" when all
 *	have written. Then it reads the device and compares. -e: errors are none
 *	of our business, nor is what it holds. -f: the disk may be full, or a
 *	quota used up: a write that fails for that has changed nothing. The
 *	first one has it say "no room"
 *   keeper check [-b BLOCK] [-o OFFSET] [-s SEED] [-d] -m MODEL PATH SIZE
 *       that the file or device holds what the model says
 *
 * The model is a file: how often each block has been written. Wrong contents:
 * exit status 4.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "common.h"

#define MOST 64

static uint64_t block = 65536, off, size, seed = 1;
static int careless, may_be_full, fd;
static uint32_t *model;
static unsigned int threads = 4;
static atomic_int stop;
static atomic_uint begun;
static atomic_ullong done, failed;

static uint64_t seed_of(uint64_t i)
{
	return seed * 1000003 + model[i];
}

static void *writer(void *arg)
{
	uint64_t n = size / block / threads, first = n * (uintptr_t)arg, i;
	struct rng r = { .state = seed + first };
	uint8_t *buf = aligned(block);
	int told = 0;

	while (!stop) {
		i = first + below(&r, n);
		model[i]++;
		fill_pattern(buf, off + i * block, block, seed_of(i));
		if (pwrite(fd, buf, block, (off_t)(off + i * block)) ==
		    (ssize_t)block || careless) {
			done++;
		} else if (may_be_full &&
			   (errno == ENOSPC || errno == EDQUOT)) {
			model[i]--;
			if (!failed++) {
				puts("no room");
				fflush(stdout);
			}
		} else {
			die("write at %ju: %s", (uintmax_t)(off + i * block),
			    strerror(errno));
		}
		if (!told)
			begun++;
		told = 1;
	}
	free(buf);
	return NULL;
}

static int check(const char *path)
{
	uint8_t *buf = aligned(block);
	uint64_t i, n = 0;

	for (i = 0; i < size / block; i++) {
		int64_t bad;

		if (!model[i])
			continue;
		if (pread(fd, buf, block, (off_t)(off + i * block)) !=
		    (ssize_t)block)
			die("%s: read at %ju: %s", path,
			    (uintmax_t)(off + i * block), strerror(errno));
		bad = check_pattern(buf, off + i * block, block, seed_of(i));
		if (bad >= 0) {
			printf("%s: wrong at byte %jd\n", path, (intmax_t)bad);
			return 4;
		}
		n++;
	}
	printf("%s: %ju blocks are right\n", path, (uintmax_t)n);
	return 0;
}

int main(int argc, char **argv)
{
	const char *verb = argc > 1 ? argv[1] : "", *path, *model_path = NULL;
	int opt, mfd, direct = 0, writes = !strcmp(verb, "write"), sig;
	pthread_t ids[MOST];
	sigset_t set;
	uintptr_t t;

	if (!writes && strcmp(verb, "check"))
		die("keeper write|check: see its first lines");
	argc--;
	argv++;
	while ((opt = getopt(argc, argv, "t:b:o:s:m:efd")) != -1) {
		switch (opt) {
		case 't':
			threads = strtoul(optarg, NULL, 0);
			break;
		case 'b':
			block = bytes(optarg);
			break;
		case 'o':
			off = bytes(optarg);
			break;
		case 's':
			seed = strtoull(optarg, NULL, 0);
			break;
		case 'm':
			model_path = optarg;
			break;
		case 'e':
			careless = 1;
			break;
		case 'f':
			may_be_full = 1;
			break;
		case 'd':
			direct = O_DIRECT;
			break;
		default:
			die("keeper: see its first lines");
		}
	}
	if (optind + 2 != argc || !model_path || !threads || threads > MOST)
		die("keeper: see its first lines");
	path = argv[optind];
	size = bytes(argv[optind + 1]);
	mfd = open(model_path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	if (mfd < 0 || ftruncate(mfd, (off_t)(size / block * sizeof(*model))))
		die("%s: %s", model_path, strerror(errno));
	model = mmap(NULL, size / block * sizeof(*model),
		     PROT_READ | PROT_WRITE, MAP_SHARED, mfd, 0);
	if (model == MAP_FAILED)
		die("%s: %s", model_path, strerror(errno));
	fd = open(path, writes ? O_RDWR | O_DIRECT | O_CLOEXEC
			       : O_RDONLY | O_CLOEXEC | direct);
	if (fd < 0)
		die("%s: %s", path, strerror(errno));
	if (!writes)
		return check(path);

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	/* What the case does beside us is not to wait for a CPU. */
	if (setpriority(PRIO_PROCESS, 0, 10))
		die("nice: %s", strerror(errno));
	for (t = 0; t < threads; t++)
		if (pthread_create(&ids[t], NULL, writer, (void *)t))
			die("no thread");
	while (begun < threads)
		usleep(1000);
	puts("began");
	fflush(stdout);
	sigwait(&set, &sig);
	stop = 1;
	for (t = 0; t < threads; t++)
		pthread_join(ids[t], NULL);
	printf("%llu writes", (unsigned long long)done);
	if (may_be_full)
		printf(", %llu without room", (unsigned long long)failed);
	puts("");
	return careless ? 0 : check(path);
}
