/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the test programs share: errors, numbers, contents that follow from a
 * seed.
 */
#ifndef TESTS_COMMON_H
#define TESTS_COMMON_H

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

__attribute__((format(printf, 1, 2), noreturn))
static inline void die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fflush(stdout);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(1);
}

/* 512, 4k, 3m, 1g: a number of bytes */
static inline uint64_t bytes(const char *s)
{
	char *end;
	uint64_t n = strtoull(s, &end, 0);

	switch (*end) {
	case 'g': case 'G':
		n <<= 10; /* fallthrough */
	case 'm': case 'M':
		n <<= 10; /* fallthrough */
	case 'k': case 'K':
		n <<= 10;
		end++;
	}
	if (*end || end == s)
		die("%s: not a number", s);
	return n;
}

static inline double seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* splitmix64: one seed, one sequence, on every machine */
static inline uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15ULL;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
	return x ^ (x >> 31);
}

struct rng {
	uint64_t state;
};

static inline uint64_t rnd(struct rng *r)
{
	return mix(r->state++);
}

static inline uint64_t below(struct rng *r, uint64_t n)
{
	return n ? rnd(r) % n : 0;
}

/*
 * Contents of the byte range [pos, pos + len) of the file or device that @seed
 * stands for; both multiples of 8.
 */
static inline void fill_pattern(void *buf, uint64_t pos, size_t len,
				uint64_t seed)
{
	uint64_t *p = buf, base = mix(seed);
	size_t i;

	for (i = 0; i < len / 8; i++)
		p[i] = (pos + i * 8) * 0x9e3779b97f4a7c15ULL ^ base;
}

/* Where @buf stops being that pattern, or -1 */
static inline int64_t check_pattern(const void *buf, uint64_t pos, size_t len,
				    uint64_t seed)
{
	const uint64_t *p = buf;
	uint64_t base = mix(seed);
	size_t i;

	for (i = 0; i < len / 8; i++)
		if (p[i] != ((pos + i * 8) * 0x9e3779b97f4a7c15ULL ^ base))
			return (int64_t)(pos + i * 8);
	return -1;
}

static inline void *aligned(size_t size)
{
	void *p = aligned_alloc(65536, (size + 65535) & ~(size_t)65535);

	if (!p)
		die("no memory");
	return p;
}

#endif
