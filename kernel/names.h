/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The two ways to load the driver: side by side with the in-tree one, under
 * names of its own, or in its place (the parameter names=loop), under the names
 * that every user of loop devices knows.
 */
#ifndef FLOOP_NAMES_H
#define FLOOP_NAMES_H

#include <linux/types.h>

#define FLOOP_VERSION		"floop 0.1"

/* As many as the in-tree driver makes; a kernel without it doesn't say. */
#ifdef CONFIG_BLK_DEV_LOOP_MIN_COUNT
#define FLOOP_DROP_IN_DEVICES	CONFIG_BLK_DEV_LOOP_MIN_COUNT
#else
#define FLOOP_DROP_IN_DEVICES	8
#endif

extern bool floop_drop_in;	/* set when the module is loaded */

/**
 * floop_names() - what the names of our nodes and our major begin with
 *
 * Context: Any.
 * Return: "loop" in the in-tree driver's place, otherwise "floop".
 */
static inline const char *floop_names(void)
{
	return floop_drop_in ? "loop" : "floop";
}

#endif /* FLOOP_NAMES_H */
