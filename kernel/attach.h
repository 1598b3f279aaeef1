/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Attach a device, replace its image, and detach it.
 */
#ifndef FLOOP_ATTACH_H
#define FLOOP_ATTACH_H

#include <linux/blkdev.h>
#include <linux/loop.h>

struct floop_device;
struct floop_image;

int floop_attach(struct floop_device *dev, blk_mode_t mode,
		 struct block_device *bdev,
		 const struct loop_config *config);
int floop_change_fd(struct floop_device *dev, int fd);
int floop_detach_later(struct floop_device *dev);
void floop_detach(struct floop_device *dev);

/* close.c: the image is closed after the last close of the device */
void floop_close(struct floop_image *image);

#endif /* FLOOP_ATTACH_H */
