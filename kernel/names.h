/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The two ways to load the driver: side by side with the in-tree one, under
 * names of its own, or in its place, under the names that every user of loop
 * devices knows.
 */
#ifndef FLOOP_NAMES_H
#define FLOOP_NAMES_H

#include <linux/major.h>
#include <linux/miscdevice.h>

#ifdef FLOOP_DROP_IN
#define FLOOP_NAME		"loop"
#define FLOOP_MAJOR		LOOP_MAJOR
#define FLOOP_CONTROL_MINOR	LOOP_CTRL_MINOR
#ifdef CONFIG_BLK_DEV_LOOP_MIN_COUNT
#define FLOOP_DEVICES_AT_LOAD	CONFIG_BLK_DEV_LOOP_MIN_COUNT
#else	/* a kernel that has no loop driver of its own */
#define FLOOP_DEVICES_AT_LOAD	8
#endif
#else
#define FLOOP_NAME		"floop"
#define FLOOP_MAJOR		0	/* the kernel picks one */
#define FLOOP_CONTROL_MINOR	MISC_DYNAMIC_MINOR
#define FLOOP_DEVICES_AT_LOAD	0
#endif

#define FLOOP_VERSION		"floop 0.1"

#endif /* FLOOP_NAMES_H */
