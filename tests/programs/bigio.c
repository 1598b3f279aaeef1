// SPDX-License-Identifier: GPL-2.0
/*
 * Direct reads and writes that are one bio each, out of one huge page of 1 GiB,
 * of which the machine has to have one.
 *
 *   bigio write PATH POS LEN COUNT SEED  COUNT writes, one behind the other, in
 *                                        one submission, of up to 1 GiB each
 *   bigio read PATH POS LEN 1 SEED       one read, which is checked
 *   bigio check PATH POS LEN COUNT SEED  some of it, page by page
 *   bigio -v ...                         the memory's pages in reverse, so that
 *                                        each needs a vector of its own
 *
 * For COUNT above 1 each write comes from another place in that page, so LEN
 * has to be less. Exit status 3: not all were done; 4: wrong contents.
 */
#include <fcntl.h>
#include <linux/mman.h>
#include <sys/uio.h>

#include "ring.h"

#define GIB	(1UL << 30)
#define PAGE	4096UL
#define STAMPS	256UL /* bytes from one to the next */
#define SAMPLE	(2UL << 20)

static uint64_t pos, len, count, seed;
static const char *path;
static uint8_t *memory;
static int reversed;

/* Where in memory byte AT of the Nth I/O is. */
static uint64_t place(uint64_t n, uint64_t at)
{
	uint64_t page = at / PAGE;

	if (reversed)
		page = len / PAGE - 1 - page;
	if (count > 1)
		page += (GIB - len) / PAGE / count * n;
	return page * PAGE + at % PAGE;
}

/*
 * io_uring unpins the pages of a process that has ended in a worker of its own,
 * so the page may not be free yet.
 */
static void map_memory(void)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_HUGE_1GB;
	int tries = 0;

	do {
		if (tries)
			usleep(10000);
		memory = mmap(NULL, GIB, PROT_READ | PROT_WRITE, flags, -1, 0);
	} while (memory == MAP_FAILED && errno == ENOMEM && ++tries < 6000);
	if (memory == MAP_FAILED)
		die("no huge page: %s", strerror(errno));
}

static uint64_t stamp(uint64_t place)
{
	return mix(seed ^ place);
}

static void fill_memory(void)
{
	uint64_t at;

	for (at = 0; at < GIB; at += STAMPS)
		*(uint64_t *)(memory + at) = stamp(at);
}

/* @buf is what was read of the Nth I/O, from its byte AT on, in a page. */
static void compare(const uint8_t *buf, uint64_t n, uint64_t at, uint64_t size)
{
	uint64_t i;

	for (i = 0; i < size; i += STAMPS) {
		if (*(const uint64_t *)(buf + i) == stamp(place(n, at + i)))
			continue;
		printf("%s: wrong at byte %ju\n", path,
		       (uintmax_t)(pos + n * len + at + i));
		exit(4);
	}
}

static void result(uint64_t n, int64_t res)
{
	if (res == (int64_t)len)
		return;
	printf("%s: number %ju: %jd\n", path, (uintmax_t)n, (intmax_t)res);
	exit(3);
}

/* As io_uring's fixed buffer, all of the huge page is one vector. */
static void submit_fixed(int fd, int op)
{
	struct iovec all = { .iov_base = memory, .iov_len = GIB };
	struct ring ring;
	uint32_t i;

	ring_make(&ring, 0);
	if (syscall(SYS_io_uring_register, ring.fd, IORING_REGISTER_BUFFERS,
		    &all, 1))
		die("io_uring_register: %s", strerror(errno));
	for (i = 0; i < count; i++) {
		ring.sqes[i].opcode = (uint8_t)op;
		ring.sqes[i].fd = fd;
		ring.sqes[i].off = pos + i * len;
		ring.sqes[i].addr = (uintptr_t)memory + place(i, 0);
		ring.sqes[i].len = (uint32_t)len;
		ring.sqes[i].user_data = i;
	}
	ring_enter(&ring, (uint32_t)count, (uint32_t)count);
	for (i = 0; i < count; i++)
		result(ring.cqes[i].user_data, ring.cqes[i].res);
}

static void submit_vectors(int fd, int op)
{
	uint64_t i, pages = len / PAGE;
	struct iovec *vecs;

	if (count != 1 || !pages || len % PAGE)
		die("bigio -v: once, and whole pages");
	vecs = calloc(pages, sizeof(*vecs));
	for (i = 0; i < pages; i++) {
		vecs[i].iov_base = memory + place(0, i * PAGE);
		vecs[i].iov_len = PAGE;
	}
	if (op == IORING_OP_READ_FIXED)
		result(0, preadv(fd, vecs, (int)pages, (off_t)pos));
	else
		result(0, pwritev(fd, vecs, (int)pages, (off_t)pos));
}

static void submit(int fd, int op)
{
	if (reversed)
		submit_vectors(fd, op);
	else
		submit_fixed(fd, op);
}

/* Each page of what is small, else one in 2 MiB, and the last. */
static void check(int fd)
{
	uint64_t step = len > SAMPLE ? SAMPLE : PAGE, n, at, size;
	uint8_t *buf = aligned(PAGE);

	for (n = 0; n < count; n++) {
		for (at = 0; at < len; at += step) {
			if (at + step >= len && len > PAGE)
				at = len - PAGE;
			size = len - at < PAGE ? len - at : PAGE;
			if (pread(fd, buf, size, (off_t)(pos + n * len + at)) !=
			    (ssize_t)size)
				die("%s: %s", path, strerror(errno));
			compare(buf, n, at, size);
		}
	}
}

int main(int argc, char **argv)
{
	const char *verb;
	uint64_t at;
	int fd;

	reversed = argc > 1 && !strcmp(argv[1], "-v");
	argc -= reversed;
	argv += reversed;
	verb = argc == 7 ? argv[1] : "";
	if (strcmp(verb, "write") && strcmp(verb, "read") &&
	    strcmp(verb, "check"))
		die("bigio: see its first lines");
	path = argv[2];
	pos = bytes(argv[3]);
	len = bytes(argv[4]);
	count = bytes(argv[5]);
	seed = bytes(argv[6]);
	if (!count || count > RING_ENTRIES || !len || len > GIB)
		die("bigio: too much");
	fd = open(path, O_RDWR | O_DIRECT);
	if (fd < 0)
		die("%s: %s", path, strerror(errno));
	if (!strcmp(verb, "check")) {
		check(fd);
		return 0;
	}
	map_memory();
	if (!strcmp(verb, "write")) {
		fill_memory();
		submit(fd, IORING_OP_WRITE_FIXED);
		if (fsync(fd))
			die("%s: fsync: %s", path, strerror(errno));
		return 0;
	}
	if (count != 1)
		die("bigio read: once");
	submit(fd, IORING_OP_READ_FIXED);
	for (at = 0; at < len; at += PAGE)
		compare(memory + place(0, at), 0, at,
			len - at < PAGE ? len - at : PAGE);
	return 0;
}
