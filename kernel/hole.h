/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Holes that are known: ranges of the image in which the file system has no
 * data. A read there is answered at once.
 */
#ifndef FLOOP_HOLE_H
#define FLOOP_HOLE_H

#include <linux/atomic.h>
#include <linux/rcupdate.h>
#include <linux/spinlock.h>
#include <linux/types.h>

struct bio;
struct floop_image;
struct floop_io;

/**
 * struct floop_hole_bits - which parts of a file are known to be holes
 * @rcu: readers hold rcu_read_lock()
 * @nr: the number of granules
 * @shift: log2 of the sectors of a granule
 * @bits: a bit for each granule: it reads as zeroes
 */
struct floop_hole_bits {
	struct rcu_head rcu;
	unsigned long nr;
	unsigned int shift;
	unsigned long bits[];
};

/**
 * struct floop_holes - the known holes of one image
 * @lock: held to change the bits, and @begun
 * @bits: the bits; NULL if there is no memory for them, or the guard is off
 * @begun: the number of writes through the file system that have come
 * @ended: how many of these have ended
 */
struct floop_holes {
	spinlock_t lock; /* holds up writes that begin while a hole is added */
	struct floop_hole_bits __rcu *bits;
	unsigned long begun;
	atomic_long_t ended;
};

void floop_holes_init_image(struct floop_image *image);
void floop_holes_start(struct floop_image *image, sector_t sectors);
void floop_holes_stop(struct floop_image *image);
void floop_holes_clear(struct floop_image *image);
bool floop_holes_look(struct floop_image *image, unsigned long *begun);
bool floop_holes_add(struct floop_image *image, sector_t sector, sector_t end,
		     unsigned long begun);
void floop_holes_remove(struct floop_image *image, sector_t sector,
			sector_t nr);
void floop_holes_write_begin(struct floop_io *io);
void floop_holes_write_end(struct floop_io *io);
bool floop_holes_have(struct floop_image *image, sector_t sector, sector_t nr);
bool floop_holes_read(struct floop_image *image, struct bio *bio);

#endif /* FLOOP_HOLE_H */
