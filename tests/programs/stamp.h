/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Stamps: every sector says whose it is, of which run, what place, which
 * generation. The programs torture and adversary share them.
 */
#ifndef TESTS_STAMP_H
#define TESTS_STAMP_H

#include <stdbool.h>

#include "common.h"

#define SECTOR 512U
#define MAGIC 0x746f727475726500ULL

enum kind { PROTECTED = 1, SACRIFICED, DONATED, VULTURE };

/* The program's: a number of this run */
extern uint64_t run;

static inline void stamp_one(void *buf, enum kind kind, uint64_t place,
			     uint64_t gen)
{
	uint64_t *w = buf, base;
	unsigned int i;

	w[0] = MAGIC | kind;
	w[1] = run;
	w[2] = place;
	w[3] = gen;
	base = mix(w[0] ^ mix(run ^ mix(place ^ mix(gen))));
	for (i = 4; i < SECTOR / 8; i++)
		w[i] = base + i * 0x9e3779b97f4a7c15ULL;
}

/* @buf of @len bytes, the first sector at @place */
static inline void stamp(void *buf, size_t len, enum kind kind, uint64_t place,
			 uint64_t gen)
{
	size_t at;

	for (at = 0; at < len; at += SECTOR)
		stamp_one((char *)buf + at, kind, place + at / SECTOR, gen);
}

static inline bool is_stamp(const void *buf, enum kind kind, uint64_t place,
			    uint64_t gen)
{
	uint64_t want[SECTOR / 8];

	stamp_one(want, kind, place, gen);
	return !memcmp(want, buf, SECTOR);
}

static inline bool is_zero(const void *buf)
{
	const uint64_t *w = buf;
	unsigned int i;

	for (i = 0; i < SECTOR / 8; i++)
		if (w[i])
			return false;
	return true;
}

/* Whose is it? In a buffer of the thread's. */
static inline const char *whose(const void *buf)
{
	static const char * const kinds[] = {
		"?", "the device's, protected", "the device's, sacrificed",
		"a donor's", "the vulture's",
	};
	static _Thread_local char text[256];
	const uint64_t *w = buf;
	uint64_t kind = w[0] & 0xff;
	bool is_file = kind == VULTURE || kind == DONATED;
	size_t len;

	if (is_zero(buf))
		return "zeroes";
	if ((w[0] & ~0xffULL) != MAGIC || kind < PROTECTED || kind > VULTURE) {
		snprintf(text, sizeof(text), "unknown bytes %016jx %016jx",
			 (uintmax_t)w[0], (uintmax_t)w[1]);
		return text;
	}
	snprintf(text, sizeof(text), "%s stamp: %s%ju, generation %ju%s%s",
		 kinds[kind], is_file ? "its sector " : "sector ",
		 (uintmax_t)(w[2] & 0xffffffff), (uintmax_t)w[3],
		 w[1] == run ? "" : ", of another run",
		 is_stamp(buf, (enum kind)kind, w[2], w[3]) || w[1] != run ?
		 "" : ", torn");
	len = strlen(text);
	if (kind == VULTURE)
		snprintf(text + len, sizeof(text) - len, ", of its file %ju",
			 (uintmax_t)(w[2] >> 32));
	return text;
}

/* Generations: an even one was written, an odd one discarded. */
static inline bool may_be_zero(uint32_t from, uint32_t to)
{
	return (from & 1) || from < to;
}

/*
 * Is @buf what the protected sector may hold, that went from generation @from
 * to @to while it was read? If it went anywhere, it may be torn, where @torn.
 */
static inline bool is_right(const void *buf, uint64_t sector, uint32_t from,
			    uint32_t to, bool torn)
{
	const uint64_t *w = buf;

	if (is_zero(buf))
		return may_be_zero(from, to);
	if (is_stamp(buf, PROTECTED, sector, w[3]))
		return w[3] >= from && w[3] <= to && !(w[3] & 1);
	return torn && from != to &&
	       (!w[0] || (w[0] == (MAGIC | PROTECTED) && w[1] == run &&
			  w[2] == sector));
}

#endif
