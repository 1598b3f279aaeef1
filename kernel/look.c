// SPDX-License-Identifier: GPL-2.0
/*
 * Questions to the file system (look.h). bmap() says where one block is, and
 * ->fiemap() how many extents a range has, so the end of an extent is found by
 * guesses. SEEK_DATA and SEEK_HOLE tell data from what was never written.
 */
#include <linux/delay.h>
#include <linux/fiemap.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/falloc.h>	/* needs fs.h */
#include <linux/pagemap.h>

#include "ask.h"
#include "fiemap.h"
#include "fs.h"
#include "helper.h"
#include "image.h"
#include "lease.h"
#include "look.h"
#include "rules.h"

/* 4 MiB, in sectors: a range without data is as large at first. */
#define EMPTY_SECTORS	BIT(13)
/* Attempts to find the inode's lock free. */
#define LOCK_TRIES	100

static struct inode *look_inode(const struct floop_look *look)
{
	return file_inode(look->ask->file);
}

/* Returns false if nothing is to be asked any more. */
static bool begin_question(struct floop_look *look)
{
	if (!look->err && !floop_ask_begin(look->ask))
		look->err = -ESTALE;
	look->looks++;
	return !look->err;
}

/* Returns false if nobody waits for the answer any more. */
static bool end_question(struct floop_look *look)
{
	if (floop_ask_end(look->ask))
		return true;
	look->left = true;
	look->err = -ESTALE;
	return false;
}

/**
 * floop_look_block() - find a block of the file on the disk
 * @look: the look
 * @block: the block of the file
 * @disk: gets the block of the disk
 *
 * Context: In the look's work. May sleep. Takes no lock of the inode that a
 * reader of an image on xfs can hold.
 * Return: false if the block is not allocated, not written, or can't be
 * overwritten in place; or if @look has an error.
 */
bool floop_look_block(struct floop_look *look, sector_t block, sector_t *disk)
{
	int err;

	if (!begin_question(look))
		return false;
	*disk = block;
	err = bmap(look_inode(look), disk);
	return end_question(look) && !err && *disk;
}

/*
 * How many extents have these blocks, written or not? Without room for an
 * extent, ->fiemap() counts them (fiemap_fill_next_extent()) and needs no
 * memory of a process. Returns a negative errno if it fails.
 *
 * xfs's map_blocks() would say where an extent ends, but warns (WARN_ON_ONCE()
 * in xfs_fs_map_blocks()) if anybody uses a page of the file, as readers of a
 * shared image may do.
 */
static int count_extents(struct floop_look *look, sector_t block, sector_t nr)
{
	struct fiemap_extent_info count = { };
	struct inode *inode = look_inode(look);
	int err;

	if (!begin_question(look))
		return look->err;
	err = floop_fiemap(inode, &count, block << inode->i_blkbits,
			   nr << inode->i_blkbits);
	if (!end_question(look))
		return look->err;
	return err ?: min_t(unsigned int, count.fi_extents_mapped, INT_MAX);
}

/*
 * Are @nr blocks from @block on contiguous at @disk, where the first one is?
 * The last one is where it has to be, which is asked first: within an epoch,
 * neither of the two goes away. So the extent that is the only one has both,
 * and what is between them.
 */
static bool is_contiguous(struct floop_look *look, sector_t block, sector_t nr,
			  sector_t disk)
{
	sector_t last;

	return floop_look_block(look, block + nr - 1, &last) &&
	       last == disk + nr - 1 &&
	       (nr == 2 || count_extents(look, block, nr) == 1);
}

/*
 * Are @nr blocks from @block on of one kind, as the first one is? Those without
 * data are unwritten if one extent has the first and the last one.
 */
static bool is_kind(struct floop_look *look, sector_t block, sector_t nr,
		    enum floop_kind kind, sector_t disk)
{
	switch (kind) {
	case FLOOP_KIND_DATA:
		return is_contiguous(look, block, nr, disk);
	case FLOOP_KIND_HOLE:
		return count_extents(look, block, nr) == 0;
	default:
		return count_extents(look, block + nr - 1, 1) == 1 &&
		       count_extents(look, block, nr) == 1;
	}
}

/*
 * May the file system be asked for extents? On xfs ->fiemap() takes the inode's
 * lock. A reader can hold that for ever, by a page fault that nobody answers,
 * and whoever wants to change an attribute waits behind it, and we would behind
 * them. bmap() doesn't take it there, so the image is mapped nevertheless.
 */
static bool may_ask_for_extents(struct floop_look *look)
{
	struct inode *inode = look_inode(look);

	if (floop_fiemap_is_untried(inode) && begin_question(look)) {
		floop_fiemap_try(look->ask->file);
		end_question(look);
	}
	return !look->err && floop_fiemap_is_safe(inode) &&
	       !(floop_fs_is_xfs(inode) &&
		 floop_lease_readers(look->ask->image));
}

/*
 * How many blocks are as the one at @block is, up to @max? Try @guess first,
 * the last answer, and whether it is the same; then double the length, or halve
 * the range that its end is in.
 */
static sector_t find_length(struct floop_look *look, sector_t block,
			    sector_t max, enum floop_kind kind, sector_t disk,
			    sector_t *guess)
{
	sector_t nr = 1, too_long = max + 1, try = min(*guess, max);

	while (nr + 1 < too_long) {
		try = clamp(try, nr + 1, too_long - 1);
		if (is_kind(look, block, try, kind, disk))
			nr = try;
		else
			too_long = try;
		if (nr == *guess)
			try = nr + 1;
		else if (too_long > max)
			try = nr * 2;
		else
			try = nr + (too_long - nr) / 2;
	}
	*guess = nr;
	return nr;
}

/**
 * floop_look_extent() - find an extent of the file on the disk
 * @look: the look
 * @block: its first block
 * @max: how many blocks are of interest
 * @disk: gets its first block on the disk
 *
 * Context: In the look's work, in an epoch. May sleep.
 * Return: its length in blocks, at most @max, and 1 where the file system may
 * not be asked for more; 0 if the block can't be mapped, or if @look has an
 * error.
 */
sector_t floop_look_extent(struct floop_look *look, sector_t block,
			   sector_t max, sector_t *disk)
{
	if (!floop_look_block(look, block, disk))
		return 0;
	if (!may_ask_for_extents(look))
		return 1;
	max = find_length(look, block, max, FLOOP_KIND_DATA, *disk,
			  &look->extent);
	return look->err ? 0 : max;
}

/**
 * floop_look_list() - list extents of the file, with the helper
 * @look: the look
 * @sector: from where on, in sectors of the file
 * @end: the end of what is of interest
 * @found: gets the extents
 * @max: how many there is room for
 *
 * Context: In the look's work, in an epoch. May sleep.
 * Return: the number of extents, or -ENODATA if they can't be listed.
 */
int floop_look_list(struct floop_look *look, sector_t sector, sector_t end,
		    struct fiemap_extent *found, unsigned int max)
{
	bool known;
	int nr;

	if (!may_ask_for_extents(look) || !begin_question(look))
		return -ENODATA;
	nr = floop_helper_ask(look->ask->file, (u64)sector << SECTOR_SHIFT,
			      (u64)(end - sector) << SECTOR_SHIFT, found, max);
	/*
	 * Somebody who has opened the file meanwhile may be about to clone it.
	 * A realtime file's blocks are on another disk; only an empty one can
	 * become one.
	 */
	known = end_question(look) && nr >= 0 && may_ask_for_extents(look) &&
		!floop_look_realtime(look);
	return known ? nr : -ENODATA;
}

/**
 * floop_look_empty() - find out what is where there is no data
 * @look: the look
 * @block: the first block, which has no data
 * @max: how many blocks have none
 * @kind: gets what it is; %FLOOP_KIND_BOTH where the file system may not be
 *	asked
 *
 * Context: In the look's work, in an epoch. May sleep.
 * Return: how many blocks are the same, at most @max; of no meaning if @look
 * has an error.
 */
sector_t floop_look_empty(struct floop_look *look, sector_t block, sector_t max,
			  enum floop_kind *kind)
{
	unsigned int shift = look_inode(look)->i_blkbits;
	int extents = -EOPNOTSUPP;

	/* Most are small: try all of it first. */
	look->empty = max(look->empty,
			  EMPTY_SECTORS >> (shift - SECTOR_SHIFT));
	if (may_ask_for_extents(look))
		extents = count_extents(look, block, 1);
	if (extents < 0) {
		*kind = FLOOP_KIND_BOTH;
		return max;
	}
	*kind = extents ? FLOOP_KIND_UNWRITTEN : FLOOP_KIND_HOLE;
	return find_length(look, block, max, *kind, 0, &look->empty);
}

/**
 * floop_look_seek() - find where data or a hole begins
 * @look: the look
 * @sector: from where on, in sectors of the file
 * @whence: SEEK_DATA or SEEK_HOLE
 * @there: gets the sector, or %FLOOP_NOWHERE if there is no data at @sector or
 *	after it
 *
 * An unwritten extent without pages in the page cache is a hole, too.
 *
 * Context: In the look's work. May sleep.
 * Return: false if @look has an error: the file system's, too.
 */
bool floop_look_seek(struct floop_look *look, sector_t sector, int whence,
		     sector_t *there)
{
	loff_t found;

	if (!begin_question(look))
		return false;
	found = vfs_llseek(look->ask->file, (loff_t)sector << SECTOR_SHIFT,
			   whence);
	if (!end_question(look))
		return false;
	if (found < 0 && found != -ENXIO)
		look->err = found;
	*there = found < 0 ? FLOOP_NOWHERE :
			     max_t(sector_t, sector, found >> SECTOR_SHIFT);
	return !look->err;
}

/**
 * floop_look_realtime() - may the file be on xfs's realtime device?
 * @look: the look
 *
 * Context: In the look's work. May sleep.
 * Return: false if it is known not to be, and @look has no error.
 */
bool floop_look_realtime(struct floop_look *look)
{
	bool realtime;

	if (!begin_question(look))
		return true;
	realtime = floop_fs_is_realtime(look->ask->file);
	return !end_question(look) || realtime;
}

/*
 * Are the locks that a change of the file takes free, at least now and then,
 * and is no direct I/O in flight, which it waits for with the locks held?
 */
static bool is_free(struct inode *inode)
{
	struct rw_semaphore *pages = &inode->i_mapping->invalidate_lock;
	unsigned int tries;

	for (tries = 0; tries < LOCK_TRIES; tries++) {
		if (inode_trylock(inode)) {
			bool idle = !atomic_read(&inode->i_dio_count) &&
				    down_write_trylock(pages);

			if (idle)
				up_write(pages);
			inode_unlock(inode);
			if (idle)
				return true;
		}
		usleep_range(1000, 2000);
	}
	return false;
}

/**
 * floop_look_unshare() - have xfs see whether the file still shares blocks
 * @look: the look
 * @file: another descriptor of the file, which leaves its times alone
 *
 * A clone sets a flag in both files. With it xfs tells of no block, even when
 * the other file is long gone. FALLOC_FL_UNSHARE_RANGE copies what is shared of
 * a range. Then it looks at all extents of the file, and takes the flag away if
 * none is shared (xfs_reflink_try_clear_inode_flag()). Here the range is empty,
 * and behind the end of any file, so nothing is copied; xfs says -EINVAL when
 * it is to allocate the range (xfs_alloc_file_space()). It doesn't look if the
 * inode has had dirty pages since its last write-back, or has pages that are
 * being written (xfs_can_free_cowblocks()), so the caller has written them.
 *
 * Whoever comes later waits for the inode's lock behind us. So don't wait for
 * somebody who has it for long: a clone in progress, or a reader for as long as
 * they like. None of our reads and writes is in flight or begins: the caller
 * has parked the image's calls.
 *
 * Context: In the look's work, which has begun a change of the image. May
 * sleep.
 * Return: true if xfs has looked.
 */
bool floop_look_unshare(struct floop_look *look, struct file *file)
{
	struct inode *inode = look_inode(look);
	struct address_space *mapping = inode->i_mapping;
	int readers = atomic_read(&inode->i_readcount);
	int writers = atomic_read(&inode->i_writecount);
	bool asked = false;

	if (floop_lease_has_others(look->ask->image))
		return false;
	get_file(file);
	if (!begin_question(look))
		goto put;
	/* As vfs_fallocate(), but without waiting for a thaw. */
	if (!sb_start_write_trylock(inode->i_sb))
		goto end;
	/* Without waiting for it: that would consume errors of others. */
	write_inode_now(inode, 0);
	if (sb_rdonly(inode->i_sb) || !is_free(inode) ||
	    atomic_read(&inode->i_readcount) > readers ||
	    atomic_read(&inode->i_writecount) > writers ||
	    mapping_tagged(mapping, PAGECACHE_TAG_DIRTY) ||
	    mapping_tagged(mapping, PAGECACHE_TAG_WRITEBACK) ||
	    READ_ONCE(inode->i_flags) & (S_IMMUTABLE | S_APPEND | S_SWAPFILE))
		goto end_write;
	/* A stop that has left us behind has let the image's calls go on. */
	if (!floop_ask_begin(look->ask))
		goto end_write;
	floop_window(FLOOP_WINDOW_UNSHARE);
	file->f_op->fallocate(file,
			      FALLOC_FL_UNSHARE_RANGE | FALLOC_FL_KEEP_SIZE,
			      inode->i_sb->s_maxbytes, 0);
	asked = true;
end_write:
	sb_end_write(inode->i_sb);
end:
	end_question(look);
put:
	fput(file);
	return asked;
}
