/* SPDX-License-Identifier: GPL-2.0 */
/*
 * /sys/block/NAME/loop/, there while the device is attached.
 */
#ifndef FLOOP_SYSFS_H
#define FLOOP_SYSFS_H

struct floop_device;

void floop_sysfs_add(struct floop_device *dev);
void floop_sysfs_remove(struct floop_device *dev);

#endif /* FLOOP_SYSFS_H */
