/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Filling the map, in the background: where the file system has put what.
 */
#ifndef FLOOP_FILL_H
#define FLOOP_FILL_H

#include <linux/types.h>
#include <linux/workqueue.h>

struct floop_image;

/**
 * struct floop_fill - what is to be looked up
 * @todo: a bit a chunk of the file: something in it may be mapped that isn't yet
 * @chunks: how many chunks there are
 * @shift: log2 of the sectors of a chunk
 * @near: the chunk that was missed last
 * @full: the map has all the memory that it may
 * @work: looks up what is to be looked up
 */
struct floop_fill {
	unsigned long *todo;
	unsigned long chunks;
	unsigned int shift;
	unsigned long near;
	bool full;
	struct delayed_work work;
};

void floop_fill_make(struct floop_image *image);
int floop_fill_start(struct floop_image *image);
void floop_fill_stop(struct floop_image *image);
void floop_fill_kick(struct floop_image *image);
void floop_fill_again(struct floop_image *image);
void floop_fill_missed(struct floop_image *image, sector_t pos);
void floop_fill_wrote(struct floop_image *image, sector_t pos, sector_t nr);

#endif /* FLOOP_FILL_H */
