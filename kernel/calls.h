/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Reads and writes that the file system has been called for and that it hasn't
 * returned from.
 */
#ifndef FLOOP_CALLS_H
#define FLOOP_CALLS_H

#include <linux/types.h>
#include <linux/wait.h>

#include "sides.h"

struct floop_image;

/* A side that is none */
#define FLOOP_CALLS_UNCOUNTED	2

/**
 * struct floop_calls - an image's calls of ->read_iter() and ->write_iter()
 * @sides: counts them: READ, WRITE
 * @parked: they don't begin
 * @unparked: woken when they do again
 */
struct floop_calls {
	struct floop_sides sides[2];
	bool parked;
	wait_queue_head_t unparked;
};

void floop_calls_init_image(struct floop_image *image);
int floop_calls_begin(struct floop_image *image, int rw, bool wait);
void floop_calls_end(struct floop_image *image, int rw, int side);
unsigned long floop_calls_look(struct floop_image *image);
bool floop_calls_wait(struct floop_image *image, unsigned long look);
bool floop_calls_park(struct floop_image *image);
void floop_calls_unpark(struct floop_image *image);

#endif /* FLOOP_CALLS_H */
