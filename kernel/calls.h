/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Writes that the file system has been called for and that it hasn't returned
 * from.
 */
#ifndef FLOOP_CALLS_H
#define FLOOP_CALLS_H

#include <linux/types.h>
#include <linux/wait.h>

#include "sides.h"

struct floop_image;

/**
 * struct floop_calls - an image's calls of ->write_iter()
 * @sides: counts them
 * @parked: writes of a part of a block don't begin
 * @unparked: woken when they do again
 */
struct floop_calls {
	struct floop_sides sides;
	bool parked;
	wait_queue_head_t unparked;
};

void floop_calls_init_image(struct floop_image *image);
int floop_calls_begin(struct floop_image *image, loff_t pos, size_t bytes,
		      bool wait);
void floop_calls_end(struct floop_image *image, int side);
unsigned long floop_calls_look(struct floop_image *image);
bool floop_calls_wait(struct floop_image *image, unsigned long look);
void floop_calls_park(struct floop_image *image);
void floop_calls_unpark(struct floop_image *image);

#endif /* FLOOP_CALLS_H */
