/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The map of a file on xfs that shares blocks with other files, or has shared
 * some. What others have, too, is mapped for reads only: a write goes through
 * the file system, which copies the block.
 */
#ifndef FLOOP_SHARED_H
#define FLOOP_SHARED_H

#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/wait.h>

#include "hole.h"
#include "map.h"
#include "range.h"

struct floop_image;
struct floop_io;

/**
 * struct floop_inside - the mapped I/O to a part of the file
 * @lock: protects @ranges; taken in interrupts
 * @ranges: where it is
 */
struct floop_inside {
	/* protects the list; taken in interrupts */
	spinlock_t lock;
	struct list_head ranges;
};

/**
 * struct floop_shared - the blocks of one image that shares some
 * @map: where they are, with a bit for those that others have, too. Ranges are
 *	taken out in an epoch: use floop_map_recall()
 * @sectors: the number of sectors that others have, too
 * @inside: the mapped I/O to them that is in flight, by part of the file
 * @ended: waiters for such I/O to end
 */
struct floop_shared {
	struct floop_map map;
	sector_t sectors;
	struct floop_inside inside[FLOOP_PARTS];
	wait_queue_head_t ended;
};

int floop_shared_init_image(struct floop_image *image);
void floop_shared_exit_image(struct floop_image *image);
void floop_shared_clear(struct floop_image *image);
int floop_shared_add(struct floop_image *image, sector_t sector, sector_t nr,
		     sector_t disk, bool others);
int floop_shared_remove(struct floop_image *image, sector_t sector,
			sector_t nr);
bool floop_shared_begin(struct floop_image *image, struct floop_range *range,
			bool write, sector_t *disk);
void floop_shared_widen(struct floop_image *image, struct floop_range *range);
void floop_shared_end(struct floop_image *image, struct floop_range *range);
bool floop_shared_in_flight(struct floop_image *image);
bool floop_shared_write_begin(struct floop_io *io, bool wait);

#endif /* FLOOP_SHARED_H */
