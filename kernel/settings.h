/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The settings of an attached device: how it shows its image.
 */
#ifndef FLOOP_SETTINGS_H
#define FLOOP_SETTINGS_H

#include <linux/blkdev.h>
#include <linux/loop.h>

struct floop_device;

int floop_settings_check(const struct loop_info64 *info);
int floop_settings_set(struct floop_device *dev,
		       const struct loop_info64 *info);
int floop_settings_get(struct floop_device *dev, struct loop_info64 *info);
int floop_settings_set_mapping(struct floop_device *dev, bool mapping);
int floop_settings_set_keep(struct floop_device *dev, bool keep);
int floop_settings_set_capacity(struct floop_device *dev);
int floop_settings_set_allocate(struct floop_device *dev,
				unsigned int allocate);
int floop_settings_set_direct(struct floop_device *dev, bool direct);
int floop_settings_set_block_size(struct floop_device *dev, blk_mode_t mode,
				  struct block_device *bdev,
				  unsigned long size);
void floop_settings_set_name(struct floop_device *dev,
			     const struct loop_info64 *info);
void floop_settings_set_size(struct floop_device *dev, sector_t size);
void floop_settings_scan(struct floop_device *dev);

#endif /* FLOOP_SETTINGS_H */
