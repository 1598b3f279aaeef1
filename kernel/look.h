/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Questions to the file system about the image's blocks: where they are on the
 * disk, how far an extent goes, what is where there is no data. Blocks are
 * those of the file system. An answer is true at the moment at which it is
 * given; the fill (fill.h) knows for how long.
 *
 * The work that asks may be left behind meanwhile (ask.h). After each question
 * see whether there is an error, before the image is accessed.
 */
#ifndef FLOOP_LOOK_H
#define FLOOP_LOOK_H

#include <linux/bits.h>
#include <linux/types.h>

struct fiemap_extent;
struct file;
struct floop_ask;

/**
 * enum floop_kind - what a range of the file is
 * @FLOOP_KIND_DATA: data
 * @FLOOP_KIND_HOLE: without data, and without blocks
 * @FLOOP_KIND_UNWRITTEN: without data, in blocks that were never written
 * @FLOOP_KIND_BOTH: without data; in parts the one and the other, or the file
 *	system doesn't tell
 */
enum floop_kind {
	FLOOP_KIND_DATA,
	FLOOP_KIND_HOLE = BIT(0),
	FLOOP_KIND_UNWRITTEN = BIT(1),
	FLOOP_KIND_BOTH = FLOOP_KIND_HOLE | FLOOP_KIND_UNWRITTEN,
};

/**
 * struct floop_look - a look at the image's blocks
 * @ask: the work that asks
 * @err: why there is no use in asking on; 0: there is
 * @left: the work is left behind; @err is set
 * @looks: counts the questions
 * @extent: the length of the last extent, in blocks, or a guess
 * @empty: that of the last part without data
 */
struct floop_look {
	struct floop_ask *ask;
	int err;
	bool left;
	unsigned int looks;
	sector_t extent;
	sector_t empty;
};

bool floop_look_block(struct floop_look *look, sector_t block, sector_t *disk);
sector_t floop_look_extent(struct floop_look *look, sector_t block,
			   sector_t max, sector_t *disk);
int floop_look_list(struct floop_look *look, sector_t sector, sector_t end,
		    struct fiemap_extent *found, unsigned int max);
sector_t floop_look_empty(struct floop_look *look, sector_t block, sector_t max,
			  enum floop_kind *kind);
bool floop_look_seek(struct floop_look *look, sector_t sector, int whence,
		     sector_t *there);
bool floop_look_realtime(struct floop_look *look);
bool floop_look_unshare(struct floop_look *look, struct file *file);

#endif /* FLOOP_LOOK_H */
