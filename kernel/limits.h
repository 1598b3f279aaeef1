/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The queue's limits.
 */
#ifndef FLOOP_LIMITS_H
#define FLOOP_LIMITS_H

#include <linux/types.h>

struct floop_device;
struct floop_image;
struct queue_limits;

unsigned int floop_limits_block_size(struct floop_device *dev,
				     struct floop_image *image, sector_t size,
				     bool asked);
void floop_limits_set(struct floop_image *image, struct queue_limits *lim,
		      unsigned int block_size);
int floop_limits_discard(struct floop_device *dev);
void floop_limits_direct(struct floop_image *image, struct queue_limits *lim);
int floop_limits_attach(struct floop_device *dev, struct floop_image *image,
			unsigned int block_size, bool asked);
void floop_limits_drop(struct floop_device *dev, struct floop_image *image);
void floop_limits_detach(struct floop_device *dev);

#endif /* FLOOP_LIMITS_H */
