// SPDX-License-Identifier: GPL-2.0
/*
 * Allocate ahead. A write to a hole becomes the write of a chunk: the data, and
 * zeroes around it. It is one call to the file system, and the chunk is mapped
 * as soon as it is written, so the next writes there are mapped.
 * Which writes those are is decided here; the chunk itself is in chunk.c.
 */
#include <linux/blkdev.h>
#include <linux/fs.h>
#include <linux/string.h>
#include <linux/sysfs.h>
#include <linux/uio.h>

#include "ahead.h"
#include "ask.h"
#include "chunk.h"
#include "device.h"
#include "fs.h"
#include "guard.h"
#include "image.h"
#include "io.h"
#include "rules.h"
#include "runs.h"

unsigned int floop_allocate_default = FLOOP_ALLOCATE_AUTO;

/*
 * May a write be part of a chunk? There are chunks in an epoch only, which
 * floop_guard_ahead_begin() looks at again. A chunk holds up other I/O, and
 * whoever opens the image, so what may be slow is none. A disk may have to
 * split the chunk where the data begins and ends in memory, which must not be
 * inside of one of its blocks. Nor may it be where its memory has to be aligned
 * to more.
 */
static bool may_be_part(struct floop_io *io)
{
	struct floop_image *image = io->image;
	unsigned int mask = (image->rules.align - 1) | image->rules.mem_mask;
	struct iov_iter iter;

	if (bio_op(io->bio) != REQ_OP_WRITE || !image->direct || io->done ||
	    READ_ONCE(image->guard.state) != FLOOP_GUARD_MAPPED ||
	    io->flags & (FLOOP_IO_PLAIN | FLOOP_IO_AHEAD | FLOOP_IO_BOUNCE) ||
	    io->bio->bi_opf & (REQ_FUA | REQ_PREFLUSH) ||
	    bio_sectors(io->bio) >= FLOOP_RUNS_LARGE ||
	    floop_io_may_be_slow(io->bio, io->bio->bi_ioprio))
		return false;
	floop_rw_iter(io, &iter);
	return !((floop_rw_pos(io) | iov_iter_alignment(&iter) |
		  i_blocksize(file_inode(image->file))) & mask);
}

static bool is_data(struct inode *inode, sector_t block)
{
	return !bmap(inode, &block) && block;
}

/*
 * Does a part of a block go to data? Quickly, and not for sure: SEEK_HOLE would
 * walk over all extents of it. bmap() would write dirty pages, and xfs tells of
 * no block of a file that shares some.
 */
static bool has_part_of_data(struct floop_io *io)
{
	struct inode *inode = file_inode(io->image->file);
	u64 pos = floop_rw_pos(io), end = pos + io->bio->bi_iter.bi_size;
	sector_t first = pos >> inode->i_blkbits;
	sector_t last = (end - 1) >> inode->i_blkbits;

	return (pos | end) & (i_blocksize(inode) - 1) &&
	       (READ_ONCE(inode->i_mapping->nrpages) ||
		READ_ONCE(io->image->fill.shared) ||
		is_data(inode, first) ||
		(last != first && is_data(inode, last)));
}

/* The chunk for a write: whole units, within the device and the file. */
static void plan(struct floop_io *io, sector_t unit, struct floop_range *range)
{
	struct floop_image *image = io->image;
	sector_t low = image->offset >> SECTOR_SHIFT;
	sector_t high = min_t(sector_t, low + get_capacity(image->dev->disk),
			      i_size_read(file_inode(image->file)) >>
			      SECTOR_SHIFT);

	range->sector = max(round_down(floop_rw_sector(io), unit), low);
	range->end = min(round_up(floop_rw_sector_end(io), unit), high);
}

/**
 * floop_ahead() - make a chunk of a write to a hole, if that is worth it
 * @io: an I/O that the caller is about to serve as the writer
 *
 * Context: The writer of the image. May sleep.
 * Return: the I/O to serve: @io itself, or a chunk that it is a part of.
 */
struct floop_io *floop_ahead(struct floop_io *io)
{
	sector_t sector = floop_rw_sector(io), end = floop_rw_sector_end(io);
	unsigned int unit, block, nr = bio_sectors(io->bio);
	struct floop_image *image = io->image;
	struct floop_ahead *ahead = &image->ahead;
	struct floop_io *chunk_io = NULL;
	struct floop_range range;

	if (ahead->allocate == FLOOP_ALLOCATE_OFF || !may_be_part(io))
		return io;
	/* It wouldn't be mapped. */
	if (READ_ONCE(image->fill.full) ||
	    READ_ONCE(ahead->useless) == READ_ONCE(image->guard.epoch))
		return io;
	/* Not in the map yet: no hole, and no sign of one. */
	if (sector >= ahead->last && end <= ahead->last_end)
		return io;
	block = i_blocksize(file_inode(image->file)) >> SECTOR_SHIFT;
	unit = floop_runs_unit(image, sector, nr);
	unit = unit > nr ? max(unit, block) : block;
	plan(io, unit, &range);
	/* The file may be shorter by now. */
	if (range.end >= end && range.end - range.sector > nr &&
	    !has_part_of_data(io) && floop_runs_have_room(image))
		chunk_io = floop_chunk_make(io, &range);
	if (chunk_io) {
		floop_runs_note(image, range.end, nr, range.end - end, unit);
		ahead->last = range.sector;
		ahead->last_end = range.end;
	} else {
		floop_runs_note(image, end, nr, 0, 0);
	}
	return chunk_io ?: io;
}

/**
 * floop_ahead_parse() - what is to be allocated ahead, from a word
 * @word: "off", "auto", or a size
 * @allocate: set to it
 *
 * Context: Any.
 * Return: 0; -EINVAL for another word, or a size that is no power of two
 * between %FLOOP_ALLOCATE_LEAST and %FLOOP_ALLOCATE_MOST.
 */
int floop_ahead_parse(const char *word, unsigned int *allocate)
{
	unsigned long long size;
	char *end;

	if (sysfs_streq(word, "off")) {
		WRITE_ONCE(*allocate, FLOOP_ALLOCATE_OFF);
		return 0;
	}
	if (sysfs_streq(word, "auto")) {
		WRITE_ONCE(*allocate, FLOOP_ALLOCATE_AUTO);
		return 0;
	}
	size = memparse(word, &end);
	if (!sysfs_streq(end, "") || size < FLOOP_ALLOCATE_LEAST ||
	    size > FLOOP_ALLOCATE_MOST || !is_power_of_2(size))
		return -EINVAL;
	WRITE_ONCE(*allocate, size);
	return 0;
}

/**
 * floop_ahead_describe() - the word for what is allocated ahead
 * @allocate: FLOOP_ALLOCATE_* or the unit, in bytes
 * @buf: where to, a page
 *
 * Context: Any.
 * Return: the length of the line.
 */
int floop_ahead_describe(unsigned int allocate, char *buf)
{
	switch (allocate) {
	case FLOOP_ALLOCATE_OFF:
		return sysfs_emit(buf, "off\n");
	case FLOOP_ALLOCATE_AUTO:
		return sysfs_emit(buf, "auto\n");
	default:
		return sysfs_emit(buf, "%u\n", allocate);
	}
}

/*
 * An image that can never be mapped doesn't pay for it. A commit of ext4's
 * journal on another disk may come before the zeroes: after a crash the blocks
 * would be written, and have the disk's old content.
 */
static bool is_of_use(struct floop_image *image)
{
	return !image->read_only && image->own_file && image->flushes &&
	       floop_fs_is_supported(image->file);
}

/**
 * floop_ahead_set() - change how much is allocated ahead
 * @image: the image, with no I/O in flight
 * @allocate: FLOOP_ALLOCATE_* or the unit, in bytes
 *
 * Context: Any.
 */
void floop_ahead_set(struct floop_image *image, unsigned int allocate)
{
	if (is_of_use(image))
		image->ahead.allocate = allocate;
}

/**
 * floop_ahead_init_image() - prepare an image
 * @image: the image
 *
 * Context: Process context. May sleep.
 * Return: 0 or -ENOMEM.
 */
int floop_ahead_init_image(struct floop_image *image)
{
	struct floop_ahead *ahead = &image->ahead;

	spin_lock_init(&ahead->lock);
	INIT_LIST_HEAD(&ahead->ranges);
	INIT_LIST_HEAD(&ahead->chunks);
	INIT_LIST_HEAD(&ahead->written);
	/* No epoch has this number. */
	ahead->useless = -1UL;
	floop_runs_init(&ahead->runs);
	if (is_of_use(image)) {
		ahead->ask = floop_ask_alloc(image, floop_chunk_map);
		if (!ahead->ask)
			return -ENOMEM;
	}
	return 0;
}

/**
 * floop_ahead_quit() - map no more chunks
 * @image: an image with no I/O in flight
 *
 * Context: Process context. Doesn't wait.
 * Return: true if floop_ahead_exit_image() would wait.
 */
bool floop_ahead_quit(struct floop_image *image)
{
	return image->ahead.ask && floop_ask_quit(image->ahead.ask);
}

/**
 * floop_ahead_exit_image() - undo floop_ahead_init_image()
 * @image: the image; no I/O is in flight
 *
 * Context: Process context. May sleep. The caller keeps the module.
 */
void floop_ahead_exit_image(struct floop_image *image)
{
	struct floop_ahead *ahead = &image->ahead;

	if (ahead->ask)
		floop_ask_stop(ahead->ask);
	floop_chunk_forget(ahead);
	floop_runs_exit(&ahead->runs);
}
