// SPDX-License-Identifier: GPL-2.0
/*
 * The extent map: a maple tree, read under RCU. An entry is the distance from a
 * sector of the file to its sector on the disk, so neighbours that are
 * contiguous on the disk have the same entry and become one extent.
 */
#include <linux/bits.h>
#include <linux/sizes.h>
#include <linux/xarray.h>

#include "map.h"

unsigned int floop_map_mib = 64;
bool floop_map_default = true;

/*
 * An extent and the gap next to it take a pivot and a slot each, 32 bytes, in
 * nodes that are half full after insertions in random order (maple_range_64).
 */
#define EXTENT_BYTES	64UL

/* Distances may be negative, values in a maple tree may not. */
#define BIAS		BIT_ULL(61)

static void *to_entry(sector_t sector, sector_t disk)
{
	return xa_mk_value(disk - sector + BIAS);
}

static sector_t to_disk(void *entry, sector_t sector)
{
	return xa_to_value(entry) - BIAS + sector;
}

/**
 * floop_map_init() - prepare an empty map
 * @map: the map
 *
 * Context: Process context. May sleep.
 * Return: 0 or -ENOMEM.
 */
int floop_map_init(struct floop_map *map)
{
	map->cached = alloc_percpu(struct floop_cached_extent);
	if (!map->cached)
		return -ENOMEM;
	mt_init_flags(&map->tree, MT_FLAGS_USE_RCU);
	mutex_init(&map->lock);
	return 0;
}

static void cache_extent(struct floop_map *map, sector_t first, sector_t end,
			 sector_t away)
{
	struct floop_cached_extent *extent = get_cpu_ptr(map->cached);

	extent->first = first;
	extent->end = end;
	extent->away = away;
	put_cpu_ptr(map->cached);
}

/* Only without readers, which could cache an extent again. */
static void drop_cached(struct floop_map *map)
{
	int cpu;

	for_each_possible_cpu(cpu)
		per_cpu_ptr(map->cached, cpu)->end = 0;
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
	mt_clear_in_rcu(&map->tree);
	mtree_destroy(&map->tree);
	mt_set_in_rcu(&map->tree);
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

/**
 * floop_map_find() - look a sector up
 * @map: the map
 * @sector: a sector of the file
 * @disk: set to the disk's sector if it is mapped
 * @end: set to the end of the extent, or of the gap, that @sector is in
 *
 * Context: Under rcu_read_lock(), and in an epoch or with @map->lock held.
 * Return: true if it is mapped.
 */
bool floop_map_find(struct floop_map *map, sector_t sector, sector_t *disk,
		    sector_t *end)
{
	MA_STATE(mas, &map->tree, sector, sector);
	void *entry = mas_walk(&mas);

	*end = (sector_t)mas.last + 1 ?: mas.last;
	if (!entry)
		return false;
	*disk = to_disk(entry, sector);
	cache_extent(map, mas.index, *end, *disk - sector);
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
	unsigned long first = sector, last = sector + nr - 1, extents = 1;
	/* From one before to one behind: neighbours become one extent. */
	MA_STATE(mas, &map->tree, first - !!first, first - !!first);
	void *entry = to_entry(sector, disk), *old;
	sector_t sectors = nr;
	int err;

	if (floop_map_is_full(floop_map_bytes(map)))
		return -ENOSPC;

	rcu_read_lock();
	mas_for_each(&mas, old, last + 1) {
		if (old != entry)
			continue;
		first = min(first, mas.index);
		last = max(last, mas.last);
		extents--;
		sectors -= mas.last - mas.index + 1;
	}
	rcu_read_unlock();

	sectors += last - first + 1 - nr;
	err = mtree_store_range(&map->tree, first, last, entry,
				GFP_NOWAIT | __GFP_NOWARN);
	if (err)
		return err;
	WRITE_ONCE(map->extents, map->extents + extents);
	WRITE_ONCE(map->sectors, map->sectors + sectors);
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
	MA_STATE(mas, &map->tree, sector, sector);
	unsigned long first = sector, last = sector + nr - 1;
	sector_t sectors = map->sectors;
	long extents = map->extents;
	void *old;
	int err;

	rcu_read_lock();
	mas_for_each(&mas, old, last) {
		sectors -= min(mas.last, last) - max(mas.index, first) + 1;
		extents += (mas.index < first) + (mas.last > last) - 1;
	}
	rcu_read_unlock();

	if (sectors == map->sectors)
		return true;
	mt_clear_in_rcu(&map->tree);
	err = mtree_store_range(&map->tree, first, last, NULL,
				GFP_NOWAIT | __GFP_NOWARN);
	mt_set_in_rcu(&map->tree);
	drop_cached(map);
	if (err) {
		floop_map_clear(map);
		return false;
	}
	WRITE_ONCE(map->extents, extents);
	WRITE_ONCE(map->sectors, sectors);
	return true;
}

/**
 * floop_map_take_out() - unmap a range of one extent, with readers
 * @map: the map; nobody uses floop_map_cached()
 * @sector: the first sector of the range, in the file
 * @nr: its length, in sectors; all of it is in the same extent. Set to how much
 *	was unmapped: all of the extent if the map has no room for its two ends
 *
 * Context: Process context, with @map->lock held. Doesn't wait for memory.
 * Return: 0 or -ENOMEM.
 */
int floop_map_take_out(struct floop_map *map, sector_t sector, sector_t *nr)
{
	MA_STATE(mas, &map->tree, sector, sector);
	unsigned long first = sector, last = sector + *nr - 1;
	unsigned long extents;
	int err;

	rcu_read_lock();
	mas_walk(&mas);
	if (mas.index < first && mas.last > last &&
	    floop_map_is_full(floop_map_bytes(map))) {
		first = mas.index;
		last = mas.last;
	}
	extents = map->extents - 1 + (mas.index < first) + (mas.last > last);
	rcu_read_unlock();
	err = mtree_store_range(&map->tree, first, last, NULL,
				GFP_NOWAIT | __GFP_NOWARN);
	if (err)
		return err;
	*nr = last - first + 1;
	WRITE_ONCE(map->extents, extents);
	WRITE_ONCE(map->sectors, map->sectors - *nr);
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
	bool mapped = true;
	sector_t disk;

	mutex_lock(&map->lock);
	rcu_read_lock();
	while (mapped && *sector < limit) {
		mapped = floop_map_find(map, *sector, &disk, end);
		if (mapped)
			*sector = *end;
		else
			*end = min(*end, limit);
	}
	rcu_read_unlock();
	mutex_unlock(&map->lock);
	return !mapped;
}
