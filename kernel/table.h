/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tables of extents, for the map of an image of many (map.c).
 */
#ifndef FLOOP_TABLE_H
#define FLOOP_TABLE_H

#include <linux/blk_types.h>
#include <linux/list.h>
#include <linux/sizes.h>
#include <linux/types.h>

#include "map.h"

/* 4 KiB of memory, with what the allocator adds. */
#define FLOOP_TABLE_MOST	128
/* With fewer, entries of their own take less memory (EXTENT_BYTES, map.c). */
#define FLOOP_TABLE_LEAST	64
/*
 * The longest gap, in sectors. What is in the gaps is looked through when a
 * table is taken apart, with the map's lock held.
 */
#define FLOOP_TABLE_GAP		(SZ_64K >> SECTOR_SHIFT)

/**
 * struct floop_table - extents in the order of the file
 * @list: the map's tables
 * @first: the first sector of the file that the table is for
 * @end: the first one behind it
 * @nr: how many extents there are
 * @extents: the extents
 */
struct floop_table {
	struct list_head list;
	sector_t first;
	sector_t end;
	unsigned int nr;
	struct floop_extent extents[FLOOP_TABLE_MOST];
};

unsigned int floop_table_fit(const struct floop_found *found, unsigned int nr,
			     sector_t end);
struct floop_table *floop_table_alloc(const struct floop_found *found,
				      unsigned int nr);
bool floop_table_find(const struct floop_table *table, sector_t sector,
		      struct floop_extent *extent);
sector_t floop_table_cut(struct floop_table *table, sector_t first,
			 sector_t end, struct floop_extent *rest);

#endif /* FLOOP_TABLE_H */
