/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The extent map of an image: the location of the file's sectors on the disk.
 * The guard (guard.h) knows whether the map is true.
 */
#ifndef FLOOP_MAP_H
#define FLOOP_MAP_H

#include <linux/list.h>
#include <linux/maple_tree.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/seqlock.h>
#include <linux/types.h>

#include "spare.h"

#define FLOOP_NOWHERE	((sector_t)-1)

/**
 * struct floop_extent - sectors of the file that are contiguous on the disk
 * @first: the first one in the file
 * @end: the first one behind them
 * @away: the distance to the first one on the disk
 */
struct floop_extent {
	sector_t first;
	sector_t end;
	sector_t away;
};

/**
 * struct floop_found - a range that is contiguous on the disk
 * @sector: its first sector, in the file
 * @nr: the number of sectors
 * @disk: its first sector on the disk
 * @shared: other files have it, too
 */
struct floop_found {
	sector_t sector;
	sector_t nr;
	sector_t disk;
	bool shared;
};

/**
 * struct floop_cached - the last extent that a CPU has found
 * @extent: the extent, or as much of it as has no spare blocks (spare.h); it
 *	may have grown in the map by now
 * @seq: &struct floop_map.seq when it was found
 * @whole: the last extent that was found while there were spare blocks
 * @part: a part with such blocks, or NULL
 * @turn: for how long these two are used: floop_spare_turn()
 * @hits: how often @whole was used
 */
struct floop_cached {
	struct floop_extent extent;
	unsigned int seq;
	struct floop_extent whole;
	struct floop_spare_part *part;
	long turn;
	unsigned int hits;
};

/**
 * struct floop_map - an extent map
 * @tree: by sector of the file; an entry is the distance to the disk's sector,
 *	or a table
 * @tables: the tables in it
 * @cached: the last extent that each CPU has found. It stays true for as long
 *	as there are readers, but in a map that floop_map_take_out() changes
 * @spare: the image's spare blocks; NULL: they don't matter to this map
 * @lock: held to change @tree
 * @seq: odd while @tree changes
 * @extents: the number of extents
 * @sectors: the number of sectors that are mapped
 */
struct floop_map {
	struct maple_tree tree;
	struct list_head tables;
	struct floop_cached __percpu *cached;
	struct floop_spare *spare;
	/* serializes changes of the tree; readers have RCU */
	struct mutex lock;
	seqcount_t seq;
	unsigned long extents;
	sector_t sectors;
};

extern unsigned int floop_map_mib;
extern bool floop_map_default;

int floop_map_init(struct floop_map *map, struct floop_spare *spare);
void floop_map_exit(struct floop_map *map);
bool floop_map_find(struct floop_map *map, sector_t sector, sector_t nr,
		    sector_t *disk, sector_t *end);
bool floop_map_recall(struct floop_map *map, sector_t sector, sector_t *disk,
		      sector_t *end);
int floop_map_add(struct floop_map *map, sector_t sector, sector_t nr,
		  sector_t disk);
unsigned int floop_map_fit_table(struct floop_map *map,
				 const struct floop_found *found,
				 unsigned int nr);
int floop_map_add_table(struct floop_map *map, const struct floop_found *found,
			unsigned int nr);
bool floop_map_remove(struct floop_map *map, sector_t sector, sector_t nr);
int floop_map_take_out(struct floop_map *map, sector_t sector, sector_t *nr);
void floop_map_clear(struct floop_map *map);
bool floop_map_gap(struct floop_map *map, sector_t *sector, sector_t limit,
		   sector_t *end);
size_t floop_map_bytes(const struct floop_map *map);
bool floop_map_is_full(size_t bytes);

/**
 * floop_map_cached() - look sectors up in this CPU's cached extent
 * @map: the map
 * @sector: the first one, in the file
 * @nr: how many
 *
 * Context: Process context, in an epoch.
 * Return: the disk's sector, or %FLOOP_NOWHERE: then call floop_map_find().
 */
static inline sector_t floop_map_cached(struct floop_map *map, sector_t sector,
					sector_t nr)
{
	struct floop_extent *extent = &get_cpu_ptr(map->cached)->extent;
	sector_t disk = FLOOP_NOWHERE;

	if (likely(sector >= extent->first && sector + nr <= extent->end))
		disk = sector + extent->away;
	put_cpu_ptr(map->cached);
	return disk;
}

void floop_map_cache_again(struct floop_map *map, struct floop_cached *cached,
			   sector_t sector);

/* After so many I/Os a CPU caches what is around the last one. */
#define FLOOP_WHOLE_HITS	16

/**
 * floop_map_cached_whole() - as floop_map_cached(), also of spare blocks
 * @map: the map
 * @sector: the first sector, in the file
 * @nr: how many
 * @write: they are written: then they aren't spare any more
 *
 * Context: Process context, in an epoch.
 * Return: the disk's sector, or %FLOOP_NOWHERE: then call floop_map_find().
 */
static inline sector_t floop_map_cached_whole(struct floop_map *map,
					      sector_t sector, sector_t nr,
					      bool write)
{
	/* Without preemption: an RCU read-side critical section, too. */
	struct floop_cached *cached = get_cpu_ptr(map->cached);
	struct floop_extent *extent = &cached->whole;
	sector_t disk = FLOOP_NOWHERE;

	if (sector >= extent->first && sector + nr <= extent->end &&
	    cached->turn == floop_spare_turn(map->spare)) {
		disk = sector + extent->away;
		if (write)
			floop_spare_wrote(map->spare, &cached->part, sector,
					  sector + nr);
		if (!(++cached->hits % FLOOP_WHOLE_HITS))
			floop_map_cache_again(map, cached, sector);
	}
	put_cpu_ptr(map->cached);
	return disk;
}

#endif /* FLOOP_MAP_H */
