/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Blocks that the image shares with other files, on xfs: they are mapped for
 * reads only. A write goes through the file system, which copies the block.
 */
#ifndef FLOOP_SHARED_H
#define FLOOP_SHARED_H

#include <linux/types.h>
#include <linux/wait.h>

#include "hole.h"
#include "map.h"
#include "sides.h"

struct floop_image;
struct floop_io;

/**
 * struct floop_shared - the blocks that one image shares
 * @map: where they are; nothing is taken out in an epoch, see
 *	floop_holes_have_shared()
 * @reads: counts the mapped reads of them, by part of the file
 * @ended: waiters for such a read to end
 */
struct floop_shared {
	struct floop_map map;
	struct floop_sides reads[FLOOP_PARTS];
	wait_queue_head_t ended;
};

int floop_shared_init_image(struct floop_image *image);
void floop_shared_exit_image(struct floop_image *image);
void floop_shared_clear(struct floop_image *image);
int floop_shared_read_begin(struct floop_image *image, sector_t sector,
			    sector_t *nr, sector_t *disk);
void floop_shared_read_end(struct floop_image *image, int side);
int floop_shared_write_begin(struct floop_io *io, bool wait);

#endif /* FLOOP_SHARED_H */
