/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The map of a file on xfs that shares blocks with other files, or has shared
 * some. What others have, too, is mapped for reads only: a write goes through
 * the file system, which copies the block.
 */
#ifndef FLOOP_SHARED_H
#define FLOOP_SHARED_H

#include <linux/types.h>

#include "inside.h"
#include "map.h"

struct floop_image;
struct floop_io;

/**
 * struct floop_shared - the blocks of one image that shares some
 * @map: where they are, with a bit for those that others have, too. Ranges are
 *	taken out in an epoch: use floop_map_recall()
 * @sectors: the number of sectors that others have, too
 * @inside: the mapped I/O to them that is in flight
 */
struct floop_shared {
	struct floop_map map;
	sector_t sectors;
	struct floop_inside inside;
};

int floop_shared_init_image(struct floop_image *image);
void floop_shared_exit_image(struct floop_image *image);
void floop_shared_clear(struct floop_image *image);
int floop_shared_add(struct floop_image *image, sector_t sector, sector_t nr,
		     sector_t disk, bool others);
int floop_shared_remove(struct floop_image *image, sector_t sector,
			sector_t nr);
bool floop_shared_begin(struct floop_image *image, struct floop_inside_io *io,
			bool write, sector_t *disk);
void floop_shared_widen(struct floop_image *image, struct floop_inside_io *io);
bool floop_shared_in_flight(struct floop_image *image);
bool floop_shared_write_begin(struct floop_io *io, bool wait);

/**
 * floop_shared_end() - after mapped I/O to a file that shares blocks
 * @shared: of the file
 * @io: from floop_shared_begin()
 *
 * Context: Any, interrupts included.
 */
static inline void floop_shared_end(struct floop_shared *shared,
				    struct floop_inside_io *io)
{
	floop_inside_leave(&shared->inside, io);
}

#endif /* FLOOP_SHARED_H */
