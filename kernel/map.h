/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The extent map of an image: which sectors of the file lie where on the disk.
 * Whether it may be believed is the guard's business (guard.h).
 */
#ifndef FLOOP_MAP_H
#define FLOOP_MAP_H

#include <linux/maple_tree.h>
#include <linux/mutex.h>
#include <linux/types.h>

/**
 * struct floop_map - where an image's sectors lie
 * @tree: by sector of the file; the entry is how far it is to the disk's sector
 * @lock: held by who changes @tree
 * @extents: how many ranges there are
 * @sectors: how many sectors are mapped
 */
struct floop_map {
	struct maple_tree tree;
	/* held by who changes the tree; readers have RCU */
	struct mutex lock;
	unsigned long extents;
	sector_t sectors;
};

extern unsigned int floop_map_mib;
extern bool floop_map_default;

void floop_map_init(struct floop_map *map);
void floop_map_exit(struct floop_map *map);
bool floop_map_find(struct floop_map *map, sector_t pos, sector_t *disk,
		    sector_t *end);
int floop_map_add(struct floop_map *map, sector_t pos, sector_t nr,
		  sector_t disk);
bool floop_map_remove(struct floop_map *map, sector_t pos, sector_t nr);
void floop_map_clear(struct floop_map *map);
bool floop_map_gap(struct floop_map *map, sector_t *pos, sector_t limit,
		   sector_t *end);
size_t floop_map_bytes(const struct floop_map *map);

#endif /* FLOOP_MAP_H */
