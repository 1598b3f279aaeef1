/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Look up extents in a list of them.
 */
#ifndef FLOOP_LISTED_H
#define FLOOP_LISTED_H

#include <linux/types.h>

struct floop_batch;
struct floop_todo;

bool floop_listed_is_due(struct floop_batch *batch);
bool floop_listed_look(struct floop_batch *batch, struct floop_todo *todo,
		       sector_t *sector, sector_t end);

#endif /* FLOOP_LISTED_H */
