// SPDX-License-Identifier: GPL-2.0
/*
 * The extent map: a maple tree, read under RCU. An entry is the distance from a
 * sector of the file to its sector on the disk, so neighbours that are
 * contiguous on the disk have the same entry and become one extent. Or it is a
 * table of extents (table.h): an entry takes some 6,000 instructions to store.
 *
 * What a table has is true, like an entry, and is in no other. What is added in
 * one of its gaps is an entry of its own, and the table has another one on
 * either side. What is removed is taken out of the table, too.
 *
 * The tree changes in place: a reader without the lock may find an entry with
 * the bounds of another. So changes are counted (@seq), and what is found while
 * there is one is not used.
 */
#include <linux/bits.h>
#include <linux/list.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/xarray.h>

#include "map.h"
#include "rules.h"
#include "spare.h"
#include "table.h"

unsigned int floop_map_mib = 64;
bool floop_map_default = true;

/*
 * An extent and the gap next to it take a pivot and a slot each, 32 bytes, in
 * nodes that are half full after insertions in random order (maple_range_64).
 */
#define EXTENT_BYTES	64UL

/* Looks while the map changes: as many as one change takes. */
#define MAX_LOOKS	20U

/* Distances may be negative, values in a maple tree may not. */
#define BIAS		BIT_ULL(61)

static void *to_entry(sector_t away)
{
	return xa_mk_value(away + BIAS);
}

static sector_t to_away(void *entry)
{
	return xa_to_value(entry) - BIAS;
}

static int store(struct floop_map *map, sector_t first, sector_t end,
		 void *entry)
{
	int err;

	raw_write_seqcount_begin(&map->seq);
	err = mtree_store_range(&map->tree, first, end - 1, entry,
				GFP_NOWAIT | __GFP_NOWARN);
	raw_write_seqcount_end(&map->seq);
	return err;
}

/**
 * floop_map_init() - prepare an empty map
 * @map: the map
 * @spare: the image's spare blocks, or NULL
 *
 * Context: Process context. May sleep.
 * Return: 0 or -ENOMEM.
 */
int floop_map_init(struct floop_map *map, struct floop_spare *spare)
{
	map->cached = alloc_percpu(struct floop_cached);
	if (!map->cached)
		return -ENOMEM;
	map->spare = spare;
	mt_init_flags(&map->tree, MT_FLAGS_USE_RCU);
	mutex_init(&map->lock);
	seqcount_init(&map->seq);
	INIT_LIST_HEAD(&map->tables);
	return 0;
}

/*
 * Not for floop_map_cached() where there are spare blocks: it doesn't count
 * them. Of those there are the @nr sectors that are written aren't spare any
 * more.
 */
static void cache_extent(struct floop_map *map, sector_t sector, sector_t nr,
			 const struct floop_extent *extent, unsigned int seq)
{
	/* Without preemption, as with rcu_read_lock() */
	struct floop_cached *cached = get_cpu_ptr(map->cached);
	struct floop_extent clipped = *extent;

	cached->part = NULL;
	if (map->spare && floop_spare_any(map->spare)) {
		cached->whole = *extent;
		cached->turn = floop_spare_turn(map->spare);
		cached->part = floop_spare_clip(map->spare, sector, &clipped);
		if (nr && (cached->part || sector + nr > clipped.end))
			floop_spare_wrote_many(map->spare, sector,
					       min(extent->end, sector + nr));
	}
	if (!cached->part) {
		cached->extent = clipped;
		cached->seq = seq;
	}
	put_cpu_ptr(map->cached);
}

/**
 * floop_map_cache_again() - cache as much of a cached extent as has no spare
 * blocks
 * @map: the map
 * @cached: this CPU's, with an extent
 * @sector: a sector of the extent
 *
 * Context: In an epoch, without preemption.
 */
void floop_map_cache_again(struct floop_map *map, struct floop_cached *cached,
			   sector_t sector)
{
	struct floop_extent clipped = cached->whole;

	if (!floop_spare_clip(map->spare, sector, &clipped))
		cached->extent = clipped;
}

/* Only without readers, which could cache an extent again. */
static void drop_cached(struct floop_map *map)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		per_cpu_ptr(map->cached, cpu)->extent.end = 0;
		per_cpu_ptr(map->cached, cpu)->whole.end = 0;
	}
}

/*
 * Subtrees are freed only without readers, and mt_clear_in_rcu() says so. As of
 * 7.3 the maple tree doesn't free a subtree in RCU mode right if its root is
 * full: mte_dead_leaves() leaves untyped pointers in its slots, so
 * mt_clear_meta() takes the last one for metadata, and a wrong address is
 * freed.
 */
static void map_destroy(struct floop_map *map)
{
	struct floop_table *table, *next;

	mt_clear_in_rcu(&map->tree);
	mtree_destroy(&map->tree);
	mt_set_in_rcu(&map->tree);
	list_for_each_entry_safe(table, next, &map->tables, list)
		kfree(table);
	INIT_LIST_HEAD(&map->tables);
}

/**
 * floop_map_exit() - free a map
 * @map: the map, without users
 *
 * Context: Process context. May sleep.
 */
void floop_map_exit(struct floop_map *map)
{
	map_destroy(map);
	mutex_destroy(&map->lock);
	free_percpu(map->cached);
}

/*
 * The extent that @sector is in. Returns false, with @extent the gap, if it is
 * in none.
 */
static __always_inline bool look(struct floop_map *map, sector_t sector,
				 struct floop_extent *extent)
{
	MA_STATE(mas, &map->tree, sector, sector);
	bool mapped = true;
	void *entry;

	rcu_read_lock();
	entry = mas_walk(&mas);
	extent->first = mas.index;
	extent->end = (sector_t)mas.last + 1 ?: mas.last;
	if (likely(xa_is_value(entry)))
		extent->away = to_away(entry);
	else
		mapped = entry && floop_table_find(entry, sector, extent);
	rcu_read_unlock();
	return mapped;
}

/* As look(), without the lock. Returns false if the map goes on changing. */
static bool look_unlocked(struct floop_map *map, sector_t sector, sector_t nr,
			  struct floop_extent *extent, bool *mapped)
{
	unsigned int looks = floop_window_is_open(FLOOP_WINDOW_FIND) ?
			     1 : MAX_LOOKS;
	unsigned int seq;

	while (looks--) {
		seq = raw_seqcount_begin(&map->seq);
		*mapped = look(map, sector, extent);
		floop_window(FLOOP_WINDOW_FIND);
		if (likely(!read_seqcount_retry(&map->seq, seq))) {
			if (*mapped)
				cache_extent(map, sector, nr, extent, seq);
			return true;
		}
		cpu_relax();
	}
	return false;
}

/**
 * floop_map_find() - look a sector up
 * @map: the map
 * @sector: a sector of the file
 * @nr: how many from there on are written: not spare any more; 0: it is a read
 * @disk: set to the disk's sector if it is mapped
 * @end: set to the end of the extent, or of the gap, that @sector is in
 *
 * Context: In an epoch or with @map->lock held. Doesn't sleep.
 * Return: true if it is mapped. Without the lock, the map may go on changing:
 * then false, and @end is as far as can be.
 */
bool floop_map_find(struct floop_map *map, sector_t sector, sector_t nr,
		    sector_t *disk, sector_t *end)
{
	struct floop_extent extent;
	bool mapped;

	if (unlikely(!look_unlocked(map, sector, nr, &extent, &mapped))) {
		*end = FLOOP_NOWHERE;
		return false;
	}
	*end = extent.end;
	if (!mapped)
		return false;
	*disk = sector + extent.away;
	return true;
}

/**
 * floop_map_recall() - as floop_map_find(), this CPU's cached extent first
 * @map: the map; its extents may be taken out while there are readers
 * @sector: a sector of the file
 * @disk: set to the disk's sector if it is mapped
 * @end: set to the end of the extent, or of the gap, that @sector is in
 *
 * Context: In an epoch or with @map->lock held. Doesn't sleep.
 * Return: as floop_map_find().
 */
bool floop_map_recall(struct floop_map *map, sector_t sector, sector_t *disk,
		      sector_t *end)
{
	struct floop_cached *cached = get_cpu_ptr(map->cached);
	struct floop_extent extent = cached->extent;
	unsigned int seq = cached->seq;

	put_cpu_ptr(map->cached);
	if (sector < extent.first || sector >= extent.end ||
	    read_seqcount_retry(&map->seq, seq))
		return floop_map_find(map, sector, 0, disk, end);
	*disk = sector + extent.away;
	*end = extent.end;
	return true;
}

/**
 * floop_map_bytes() - the memory that a map takes, at most
 * @map: the map
 *
 * Context: Any.
 * Return: bytes.
 */
size_t floop_map_bytes(const struct floop_map *map)
{
	return READ_ONCE(map->extents) * EXTENT_BYTES;
}

/**
 * floop_map_is_full() - is there no room for one more extent?
 * @bytes: the memory that the map takes
 *
 * Context: Any.
 * Return: true if it would be more than the bound (map_memory).
 */
bool floop_map_is_full(size_t bytes)
{
	return bytes + EXTENT_BYTES > floop_map_mib * (size_t)SZ_1M;
}

static void count(struct floop_map *map, long extents, sector_t sectors)
{
	WRITE_ONCE(map->extents, map->extents + extents);
	WRITE_ONCE(map->sectors, map->sectors + sectors);
}

/* Add a range of a gap. It becomes one extent with neighbours of its own. */
static int add_entry(struct floop_map *map, sector_t sector, sector_t end,
		     sector_t away)
{
	MA_STATE(mas, &map->tree, end, end);
	void *entry = to_entry(away);
	sector_t first = sector, last = end;
	long extents = 1;
	int err;

	if (floop_map_is_full(floop_map_bytes(map)))
		return -ENOSPC;
	rcu_read_lock();
	if (mas_walk(&mas) == entry) {
		last = mas.last + 1;
		extents--;
	}
	if (sector) {
		mas_set(&mas, sector - 1);
		if (mas_walk(&mas) == entry) {
			first = mas.index;
			extents--;
		}
	}
	rcu_read_unlock();

	err = store(map, first, last, entry);
	if (!err)
		count(map, extents, end - sector);
	return err;
}

/**
 * floop_map_add() - map a range
 * @map: the map
 * @sector: its first sector in the file
 * @nr: its length, in sectors
 * @disk: its first sector on the disk
 *
 * Sectors that are mapped already have the same place on the disk: a change
 * would have unmapped them.
 *
 * Context: Process context, with @map->lock held. Doesn't wait for memory: the
 * end of a broken epoch waits for the lock, and others may wait for that.
 * Return: 0; -ENOSPC for more than the bound on the map's memory; -ENOMEM.
 */
int floop_map_add(struct floop_map *map, sector_t sector, sector_t nr,
		  sector_t disk)
{
	sector_t end = sector + nr, away = disk - sector;
	struct floop_extent extent;
	int err = 0;

	for (; sector < end && !err; sector = extent.end)
		if (!look(map, sector, &extent))
			err = add_entry(map, sector, min(end, extent.end),
					away);
	return err;
}

/**
 * floop_map_fit_table() - how many extents may be mapped as a table?
 * @map: the map
 * @found: the extents, not yet mapped
 * @nr: how many there are
 *
 * Context: Process context, with @map->lock held.
 * Return: so many of the first ones; 0 if they are too few for a table, or if
 * the map has, between them, or has no room for them.
 */
unsigned int floop_map_fit_table(struct floop_map *map,
				 const struct floop_found *found,
				 unsigned int nr)
{
	MA_STATE(mas, &map->tree, 0, 0);
	sector_t first = found->sector, end;

	rcu_read_lock();
	/* Not if the first one becomes one extent with what is before it. */
	mas_set(&mas, first - !!first);
	if (mas_walk(&mas) == to_entry(found->disk - first))
		nr = 0;
	mas_set(&mas, first);
	end = mas_find(&mas, ULONG_MAX) ? mas.index : FLOOP_NOWHERE;
	rcu_read_unlock();
	nr = floop_table_fit(found, nr, end);
	if (nr && floop_map_is_full(floop_map_bytes(map) +
				    (nr - 1) * EXTENT_BYTES))
		nr = 0;
	return nr;
}

/**
 * floop_map_add_table() - map many extents at once
 * @map: the map
 * @found: the extents
 * @nr: how many there are, as floop_map_fit_table() says
 *
 * Context: As floop_map_add().
 * Return: 0 or -ENOMEM.
 */
int floop_map_add_table(struct floop_map *map, const struct floop_found *found,
			unsigned int nr)
{
	struct floop_table *table = floop_table_alloc(found, nr);
	sector_t sectors = 0;
	unsigned int i;
	int err;

	if (!table)
		return -ENOMEM;
	err = store(map, table->first, table->end, table);
	if (err) {
		kfree(table);
		return err;
	}
	list_add(&table->list, &map->tables);
	for (i = 0; i < nr; i++)
		sectors += found[i].nr;
	count(map, nr, sectors);
	return 0;
}

/**
 * floop_map_clear() - unmap all
 * @map: the map
 *
 * Never fails: it needs no memory.
 *
 * Context: Process context, with @map->lock held, and no reader but us.
 */
void floop_map_clear(struct floop_map *map)
{
	map_destroy(map);
	drop_cached(map);
	WRITE_ONCE(map->extents, 0);
	WRITE_ONCE(map->sectors, 0);
}

/*
 * Without readers: make a table's extents entries of their own, and free it. As
 * far as there is no memory for that, it stays.
 */
static void take_apart(struct floop_map *map, struct floop_table *table)
{
	MA_STATE(mas, &map->tree, table->first, table->first);
	struct floop_extent extent;
	sector_t sector;
	void *entry;

	while (table->nr) {
		extent = table->extents[table->nr - 1];
		if (store(map, extent.first, extent.end, to_entry(extent.away)))
			return;
		table->nr--;
	}
	/* Its gaps. */
	for (sector = table->first; sector < table->end;
	     sector = mas.last + 1 ?: table->end) {
		mas_set(&mas, sector);
		rcu_read_lock();
		entry = mas_walk(&mas);
		rcu_read_unlock();
		if (entry == table && store(map, mas.index, mas.last + 1, NULL))
			return;
	}
	list_del(&table->list);
	kfree(table);
}

/*
 * Without readers: what is removed of the tree's entries, but for the tree.
 * @rest and @small are what has to be added and taken apart afterwards.
 */
static void cut_entries(struct floop_map *map, sector_t first, sector_t end,
			struct floop_extent *rest, struct list_head *small)
{
	MA_STATE(mas, &map->tree, first, first);
	struct floop_table *table;
	sector_t sectors;
	long extents;
	void *entry;

	rcu_read_lock();
	mas_for_each(&mas, entry, end - 1) {
		if (xa_is_value(entry)) {
			extents = (mas.index < first) + (mas.last >= end) - 1;
			sectors = min(mas.last + 1, end) -
				  max(mas.index, first);
		} else {
			table = entry;
			extents = -(long)table->nr;
			sectors = floop_table_cut(table, first, end, rest);
			extents += table->nr;
			if (table->nr < FLOOP_TABLE_LEAST)
				list_move(&table->list, small);
		}
		count(map, extents, -sectors);
	}
	rcu_read_unlock();
}

static int remove_range(struct floop_map *map, sector_t first, sector_t end)
{
	struct floop_extent rest = {}, gap;
	struct floop_table *table, *next;
	LIST_HEAD(small);
	int err;

	cut_entries(map, first, end, &rest, &small);
	/* A table has no more entries for its gaps than it has extents. */
	if (first && !look(map, first - 1, &gap))
		first = gap.first;
	if (!look(map, end, &gap))
		end = gap.end;
	err = store(map, first, end, NULL);
	if (!err && rest.end) {
		err = store(map, rest.first, rest.end, to_entry(rest.away));
		count(map, 1, 0);
	}
	list_for_each_entry_safe(table, next, &small, list)
		if (!err)
			take_apart(map, table);
	list_splice(&small, &map->tables);
	return err;
}

/**
 * floop_map_remove() - unmap a range
 * @map: the map
 * @sector: its first sector in the file
 * @nr: its length, in sectors
 *
 * Context: Process context, with @map->lock held, and no reader but us.
 * Doesn't wait for memory.
 * Return: false if everything has been unmapped, for lack of memory to unmap a
 * part.
 */
bool floop_map_remove(struct floop_map *map, sector_t sector, sector_t nr)
{
	unsigned long first = sector;
	int err;

	if (!mt_find(&map->tree, &first, sector + nr - 1))
		return true;
	mt_clear_in_rcu(&map->tree);
	err = remove_range(map, sector, sector + nr);
	mt_set_in_rcu(&map->tree);
	drop_cached(map);
	if (err)
		floop_map_clear(map);
	return !err;
}

/**
 * floop_map_take_out() - unmap a range of one extent, with readers
 * @map: the map, without tables; nobody uses floop_map_cached()
 * @sector: the first sector of the range, in the file
 * @nr: its length, in sectors; all of it is in the same extent. Set to how much
 *	was unmapped: all of the extent if the map has no room for its two ends
 *
 * Context: Process context, with @map->lock held. Doesn't wait for memory.
 * Return: 0 or -ENOMEM.
 */
int floop_map_take_out(struct floop_map *map, sector_t sector, sector_t *nr)
{
	sector_t first = sector, end = sector + *nr;
	struct floop_extent extent;
	int err;

	look(map, sector, &extent);
	if (extent.first < first && extent.end > end &&
	    floop_map_is_full(floop_map_bytes(map))) {
		first = extent.first;
		end = extent.end;
	}
	err = store(map, first, end, NULL);
	if (err)
		return err;
	*nr = end - first;
	count(map, (extent.first < first) + (extent.end > end) - 1, -*nr);
	return 0;
}

/**
 * floop_map_gap() - find the next range that isn't mapped
 * @map: the map
 * @sector: where to begin, in sectors of the file; set to the start of the gap
 * @limit: where to stop
 * @end: set to the end of the gap, at most @limit
 *
 * Context: Process context. Takes @map->lock.
 * Return: false if all up to @limit is mapped.
 */
bool floop_map_gap(struct floop_map *map, sector_t *sector, sector_t limit,
		   sector_t *end)
{
	struct floop_extent extent;
	bool mapped = true;

	mutex_lock(&map->lock);
	while (mapped && *sector < limit) {
		mapped = look(map, *sector, &extent);
		if (mapped)
			*sector = extent.end;
		else
			*end = min(extent.end, limit);
	}
	mutex_unlock(&map->lock);
	return !mapped;
}
