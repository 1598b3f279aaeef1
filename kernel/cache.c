// SPDX-License-Identifier: GPL-2.0
/*
 * The image's page cache. Direct I/O and mapped I/O bypass it, so its dirty
 * pages are written, and its clean ones dropped, before either begins. No page
 * that a mapped write has bypassed may stay (FLOOP_RULE_CACHE).
 */
#include <linux/delay.h>
#include <linux/fs.h>
#include <linux/pagemap.h>
#include <linux/sizes.h>

#include "image.h"

/* The least to write back at a time. */
#define MIN_PIECE	SZ_16M

/* Looks at pages that may be written soon, a millisecond apart */
#define SOON_LOOKS	100

/* Attempts to drop a page that our own I/O has dirtied, or uses. */
#define MAX_TRIES	100

/*
 * The images whose page cache allocates with a restricted mask. Several images
 * may share a page cache. Each keeps the mask from before the first one.
 */
static LIST_HEAD(restricted);
static DEFINE_MUTEX(restricted_lock);

/**
 * floop_cache_write_back() - write the dirty pages of the image to the disk
 * @image: the image
 *
 * Errors are kept for the next flush of the device.
 *
 * Context: Process context. Sleeps.
 * Return: 0 or an errno.
 */
int floop_cache_write_back(struct floop_image *image)
{
	struct address_space *mapping = image->file->f_mapping;
	int err = filemap_fdatawrite(mapping);
	int more = filemap_fdatawait_keep_errors(mapping);

	return err ?: more;
}

/**
 * floop_cache_write_pieces() - write back while the guard wants an epoch
 * @image: the image
 *
 * Works in pieces, so that floop_guard_stop() doesn't wait for all of a large
 * image. The fsync that follows reports errors.
 *
 * Context: Process context. Sleeps.
 */
void floop_cache_write_pieces(struct floop_image *image)
{
	struct address_space *mapping = image->file->f_mapping;
	loff_t size = i_size_read(mapping->host), pos;
	loff_t piece = max_t(loff_t, MIN_PIECE, size >> 12);

	for (pos = 0; pos < size; pos += piece) {
		if (!mapping_tagged(mapping, PAGECACHE_TAG_DIRTY) ||
		    !READ_ONCE(image->guard.wanted))
			break;
		filemap_fdatawrite_range(mapping, pos, pos + piece - 1);
		filemap_fdatawait_range_keep_errors(mapping, pos,
						    pos + piece - 1);
	}
}

/**
 * floop_cache_is_written() - is no page of the image dirty?
 * @image: the image
 *
 * Context: Any.
 * Return: false if one is, or is being written.
 */
bool floop_cache_is_written(struct floop_image *image)
{
	struct address_space *mapping = image->file->f_mapping;

	return !mapping_tagged(mapping, PAGECACHE_TAG_DIRTY) &&
	       !mapping_tagged(mapping, PAGECACHE_TAG_WRITEBACK);
}

/**
 * floop_cache_write_soon() - write back what can be written at once
 * @image: the image
 *
 * Pages of a throttled cgroup may take as long as they like.
 *
 * Context: Process context. Sleeps for a tenth of a second at most when all
 * is submitted.
 */
void floop_cache_write_soon(struct floop_image *image)
{
	unsigned int looks = 0;

	filemap_flush(image->file->f_mapping);
	while (!floop_cache_is_written(image) && looks++ < SOON_LOOKS)
		usleep_range(500, 1000);
}

/**
 * floop_cache_prepare() - make the page cache ready for the device's I/O
 * @image: an image that has had no I/O yet, with direct I/O decided
 *
 * Context: Process context. Sleeps.
 */
void floop_cache_prepare(struct floop_image *image)
{
	floop_cache_write_back(image);
	if (image->direct)
		invalidate_mapping_pages(image->file->f_mapping, 0, -1);
}

/**
 * floop_cache_invalidate() - drop all pages
 * @image: the image, its pages written back
 *
 * Context: Process context. Sleeps.
 * Return: 0, or an errno if a page stays.
 */
int floop_cache_invalidate(struct floop_image *image)
{
	return invalidate_inode_pages2(image->file->f_mapping);
}

/**
 * floop_cache_try_drop() - write back all pages, and drop them
 * @image: the image
 *
 * Data only: our own changes zero parts of blocks in the page cache.
 *
 * Context: Process context. Sleeps.
 * Return: 0; -EBUSY if a page was dirty again by then; or another errno.
 */
int floop_cache_try_drop(struct floop_image *image)
{
	int err = 0;

	if (READ_ONCE(image->file->f_mapping->nrpages))
		err = floop_cache_write_back(image) ?:
		      floop_cache_invalidate(image);
	return err;
}

/**
 * floop_cache_drop() - drop all pages, even if it takes several tries
 * @image: the image
 *
 * Our own writes go on meanwhile, and may leave a dirty page (xfs does parts of
 * blocks buffered if the file shares some).
 *
 * Context: Process context. Sleeps.
 * Return: false if a page stays.
 */
bool floop_cache_drop(struct floop_image *image)
{
	unsigned int tries = 0;
	int err = floop_cache_try_drop(image);

	while (err == -EBUSY && ++tries < MAX_TRIES) {
		usleep_range(500, 1000);
		err = floop_cache_try_drop(image);
	}
	return !err;
}

/*
 * In 7.3 a reader can have pages put together to a large folio (MADV_COLLAPSE).
 * An invalidation that waits for one of them meanwhile skips it, and its
 * content stays in the large one: so look again. What is missed still, as after
 * any direct write, goes within a second (pages_work()). Returns 0 or an errno.
 */
static int drop_pages(struct address_space *mapping, loff_t pos, loff_t last)
{
	int err;

	err = invalidate_inode_pages2_range(mapping, pos >> PAGE_SHIFT,
					    last >> PAGE_SHIFT);
	if (!err && filemap_range_has_page(mapping, pos, last))
		err = invalidate_inode_pages2_range(mapping, pos >> PAGE_SHIFT,
						    last >> PAGE_SHIFT);
	return err;
}

/**
 * floop_cache_drop_range() - drop the pages that a mapped write has bypassed
 * @image: the image, with a reference of the epoch held
 * @pos: the position of the write in the file, in bytes
 * @size: its size, in bytes
 *
 * A dirty page can't be dropped. In an epoch or a pause it is ours: a write
 * that ext4 can't do directly (into a hole of a file without extents) is in the
 * page cache for a moment. After a break it may be another writer's, whose
 * write has collided with ours. Then both get an error at their next flush, as
 * after any direct write (dio_warn_stale_pagecache()). mapping_set_error()
 * would fail reads as well.
 *
 * Context: Process context, memory not from I/O. Sleeps.
 */
void floop_cache_drop_range(struct floop_image *image, loff_t pos, size_t size)
{
	struct address_space *mapping = image->file->f_mapping;
	loff_t last = pos + size - 1;
	int tries;

	for (tries = 0; tries < MAX_TRIES; tries++) {
		if (!drop_pages(mapping, pos, last))
			return;
		if (floop_guard_is_broken(&image->guard))
			break;
		filemap_fdatawrite_range(mapping, pos, last);
		filemap_fdatawait_range_keep_errors(mapping, pos, last);
		usleep_range(500, 1000);
	}
	filemap_set_wb_err(mapping, -EIO);
	/* Send the next flush through the file system. */
	WRITE_ONCE(image->sync, FLOOP_UNSYNCED);
}

static struct floop_image *another_of(struct address_space *mapping)
{
	struct floop_image *image;

	list_for_each_entry(image, &restricted, restricted)
		if (image->file->f_mapping == mapping)
			return image;
	return NULL;
}

/**
 * floop_cache_restrict() - allocate memory for the page cache without I/O
 * @image: an image that is being opened
 *
 * Another writer to the image, through its page cache, holds locks of the file
 * system that we may need. Its memory must not come from writing to the device.
 *
 * Context: Process context. May sleep.
 */
void floop_cache_restrict(struct floop_image *image)
{
	struct address_space *mapping = image->file->f_mapping;
	struct floop_image *other;

	mutex_lock(&restricted_lock);
	other = another_of(mapping);
	image->gfp_mask = other ? other->gfp_mask : mapping_gfp_mask(mapping);
	mapping_set_gfp_mask(mapping,
			     image->gfp_mask & ~(__GFP_IO | __GFP_FS));
	list_add(&image->restricted, &restricted);
	mutex_unlock(&restricted_lock);
}

/**
 * floop_cache_unrestrict() - undo floop_cache_restrict()
 * @image: the image
 *
 * Context: Process context. May sleep.
 */
void floop_cache_unrestrict(struct floop_image *image)
{
	struct address_space *mapping = image->file->f_mapping;

	mutex_lock(&restricted_lock);
	list_del(&image->restricted);
	if (!another_of(mapping))
		mapping_set_gfp_mask(mapping, image->gfp_mask);
	mutex_unlock(&restricted_lock);
}
