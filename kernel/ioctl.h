/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The device's ioctls: <linux/loop.h>.
 */
#ifndef FLOOP_IOCTL_H
#define FLOOP_IOCTL_H

#include <linux/blkdev.h>

int floop_ioctl(struct block_device *bdev, blk_mode_t mode, unsigned int cmd,
		unsigned long arg);
int floop_compat_ioctl(struct block_device *bdev, blk_mode_t mode,
		       unsigned int cmd, unsigned long arg);

#endif /* FLOOP_IOCTL_H */
