// SPDX-License-Identifier: GPL-2.0
/*
 * A table has up to FLOOP_TABLE_MOST extents, in the order of the file. While
 * there are readers, it doesn't change.
 */
#include <linux/minmax.h>
#include <linux/slab.h>

#include "table.h"

/**
 * floop_table_fit() - how many extents go into one table?
 * @found: the extents
 * @nr: how many there are
 * @end: the sector of the file behind which the table may have nothing
 *
 * Context: Any.
 * Return: so many of the first ones; 0 if they are too few for a table.
 */
unsigned int floop_table_fit(const struct floop_found *found, unsigned int nr,
			     sector_t end)
{
	sector_t last_end = found->sector;
	unsigned int i;

	nr = min(nr, FLOOP_TABLE_MOST);
	for (i = 0; i < nr; i++) {
		if (found[i].sector < last_end ||
		    found[i].sector > last_end + FLOOP_TABLE_GAP ||
		    found[i].sector + found[i].nr > end)
			break;
		last_end = found[i].sector + found[i].nr;
	}
	return i < FLOOP_TABLE_LEAST ? 0 : i;
}

/**
 * floop_table_alloc() - make a table
 * @found: the extents
 * @nr: how many there are, as floop_table_fit() says
 *
 * Context: Any. Doesn't wait for memory.
 * Return: the table, to be freed with kfree(), or NULL.
 */
struct floop_table *floop_table_alloc(const struct floop_found *found,
				      unsigned int nr)
{
	struct floop_table *table = kmalloc(sizeof(*table),
					    GFP_NOWAIT | __GFP_NOWARN);
	unsigned int i;

	if (!table)
		return NULL;
	for (i = 0; i < nr; i++)
		table->extents[i] = (struct floop_extent){
			.first = found[i].sector,
			.end = found[i].sector + found[i].nr,
			.away = found[i].disk - found[i].sector,
		};
	table->nr = nr;
	table->first = table->extents[0].first;
	table->end = table->extents[nr - 1].end;
	return table;
}

/* The first extent that ends behind @sector; @table->nr if there is none. */
static unsigned int first_behind(const struct floop_table *table,
				 sector_t sector)
{
	unsigned int low = 0, high = table->nr;

	while (low < high) {
		unsigned int middle = (low + high) / 2;

		if (table->extents[middle].end > sector)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

/**
 * floop_table_find() - look a sector up
 * @table: the table
 * @sector: a sector of the file
 * @extent: set to the extent that it is in; if it is in none, cut to what is
 *	between two of them
 *
 * Context: Any.
 * Return: true if there is such an extent.
 */
bool floop_table_find(const struct floop_table *table, sector_t sector,
		      struct floop_extent *extent)
{
	unsigned int i = first_behind(table, sector);

	if (i < table->nr && table->extents[i].first <= sector) {
		*extent = table->extents[i];
		return true;
	}
	if (i)
		extent->first = max(extent->first, table->extents[i - 1].end);
	if (i < table->nr)
		extent->end = min(extent->end, table->extents[i].first);
	return false;
}

/**
 * floop_table_cut() - take a range out
 * @table: the table, without readers
 * @first: the first sector of the range, in the file
 * @end: the first one behind it
 * @rest: set to what is behind the range in an extent that has something before
 *	it, too: the table has no room for it
 *
 * Context: Any.
 * Return: how many sectors of extents were in the range.
 */
sector_t floop_table_cut(struct floop_table *table, sector_t first,
			 sector_t end, struct floop_extent *rest)
{
	unsigned int i = first_behind(table, first), kept = i;
	sector_t sectors = 0;

	for (; i < table->nr; i++) {
		struct floop_extent extent = table->extents[i];
		sector_t begin_cut = max(extent.first, first);
		sector_t end_cut = min(extent.end, end);

		if (begin_cut < end_cut) {
			sectors += end_cut - begin_cut;
			if (extent.first < begin_cut && end_cut < extent.end)
				*rest = (struct floop_extent){
					end_cut, extent.end, extent.away,
				};
			if (extent.first < begin_cut)
				extent.end = begin_cut;
			else
				extent.first = end_cut;
		}
		if (extent.first < extent.end)
			table->extents[kept++] = extent;
	}
	table->nr = kept;
	return sectors;
}
