/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Enter blocks into the map.
 */
#ifndef FLOOP_COMMIT_H
#define FLOOP_COMMIT_H

#include <linux/types.h>

struct floop_batch;
struct floop_image;
struct floop_todo;

int floop_commit(struct floop_batch *batch, struct floop_todo *todo);
bool floop_commit_now(struct floop_image *image, unsigned long epoch,
		      sector_t block, sector_t nr, sector_t disk);

#endif /* FLOOP_COMMIT_H */
