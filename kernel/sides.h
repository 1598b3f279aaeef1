/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Count what begins and ends, so that somebody can wait until all has ended
 * that had begun by some moment, whatever has begun since.
 */
#ifndef FLOOP_SIDES_H
#define FLOOP_SIDES_H

#include <linux/atomic.h>
#include <linux/spinlock.h>
#include <linux/types.h>

/**
 * struct floop_sides - two counters
 * @lock: held to begin, and to change the side
 * @inside: how many have begun and not ended, by the side that they began on
 * @turns: how often the side has changed; the lowest bit is the side
 */
struct floop_sides {
	spinlock_t lock; /* holds up what begins while the side changes */
	atomic_t inside[2];
	unsigned long turns;
};

void floop_sides_init(struct floop_sides *sides);
int floop_sides_begin(struct floop_sides *sides);
void floop_sides_end(struct floop_sides *sides, int side);
unsigned long floop_sides_look(struct floop_sides *sides);
bool floop_sides_have_ended(struct floop_sides *sides, unsigned long look);

#endif /* FLOOP_SIDES_H */
