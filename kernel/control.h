/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The control node, which adds and removes devices.
 */
#ifndef FLOOP_CONTROL_H
#define FLOOP_CONTROL_H

int floop_control_register(void);
void floop_control_unregister(void);

#endif /* FLOOP_CONTROL_H */
