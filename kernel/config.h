/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Attaching a device, changing what it is attached to, and detaching it.
 */
#ifndef FLOOP_CONFIG_H
#define FLOOP_CONFIG_H

#include <linux/blkdev.h>
#include <linux/loop.h>

struct floop_device;

int floop_configure(struct floop_device *dev, blk_mode_t mode,
		    struct block_device *bdev,
		    const struct loop_config *config);
int floop_change_fd(struct floop_device *dev, int fd);
int floop_clear_later(struct floop_device *dev);
void floop_clear(struct floop_device *dev);

#endif /* FLOOP_CONFIG_H */
