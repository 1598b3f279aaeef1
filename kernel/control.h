/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The registry of devices, and the control node that adds and removes them.
 */
#ifndef FLOOP_CONTROL_H
#define FLOOP_CONTROL_H

struct floop_device;

int floop_control_reserve(struct floop_device *dev, int number);
void floop_control_show(struct floop_device *dev);
void floop_control_forget(struct floop_device *dev);
int floop_control_register(void);
void floop_control_unregister(void);
void floop_control_remove_all(void);

#endif /* FLOOP_CONTROL_H */
