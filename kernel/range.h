/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Which part of the file an I/O is in flight to.
 */
#ifndef FLOOP_RANGE_H
#define FLOOP_RANGE_H

#include <linux/list.h>
#include <linux/types.h>

/**
 * struct floop_range - a part of the file, while I/O to it is in flight
 * @node: in a list of the image's
 * @sector: its first sector, in the file
 * @end: the first sector behind it
 */
struct floop_range {
	struct list_head node;
	sector_t sector;
	sector_t end;
};

static inline bool floop_range_overlaps(const struct floop_range *range,
					sector_t sector, sector_t end)
{
	return range->sector < end && sector < range->end;
}

#endif /* FLOOP_RANGE_H */
