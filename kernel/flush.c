// SPDX-License-Identifier: GPL-2.0
/*
 * Flushes through the file system. When a flush completes, all I/O that had
 * completed before it was submitted is durable. A flush comes ahead of the data
 * of a write with REQ_PREFLUSH, and behind the data of one with REQ_FUA if the
 * file system doesn't make that durable itself. remap.c decides whether a flush
 * goes to the disk alone.
 */
#include <linux/blkdev.h>
#include <linux/fs.h>
#include <linux/llist.h>

#include "image.h"
#include "io.h"
#include "lane.h"

/*
 * Make the data durable, and the metadata that it takes to find it, but not the
 * times of the file: no user of the device sees them. A file system that has
 * become read-only takes overwrites until its open descriptors are closed, but
 * ext4_sync_file() does nothing there: write back and flush the disk ourselves.
 * Likewise if an fsync may leave the data in the disk's cache.
 */
static int make_durable(struct floop_image *image)
{
	struct super_block *sb = file_inode(image->file)->i_sb;
	bool read_only = sb_rdonly(sb);
	int err = vfs_fsync(image->file, 1);

	/* Look twice: it may be remounted during the call. */
	read_only |= sb_rdonly(sb);
	if (err || image->is_bdev || (!read_only && image->flushes) ||
	    !sb->s_bdev)
		return err;
	err = file_write_and_wait_range(image->file, 0, LLONG_MAX);
	return err ?: blkdev_issue_flush(sb->s_bdev);
}

/**
 * floop_flush_fail() - fail flushes with the error of another flush
 * @node: a list of struct floop_io, not empty
 * @err: a negative errno
 *
 * Context: Process context. Doesn't sleep.
 */
void floop_flush_fail(struct llist_node *node, int err)
{
	while (node) {
		struct floop_io *io = llist_entry(node, struct floop_io, node);

		node = node->next;
		floop_io_end(io, floop_io_status(err), NULL);
	}
}

/**
 * floop_flush() - one fsync for all flushes that wait for it
 * @node: a list of struct floop_io, not empty, each submitted before this call
 *
 * Context: A worker of the image, in its reclaim scope. Sleeps.
 * Return: 0, or the errno that all of them failed with.
 */
int floop_flush(struct llist_node *node)
{
	struct floop_image *image =
		llist_entry(node, struct floop_io, node)->image;
	unsigned long undurable;
	int err;

	WRITE_ONCE(image->sync, FLOOP_SYNCING);
	undurable = READ_ONCE(image->ahead.undurable);
	/* A write that is seen after this is not covered by the fsync. */
	smp_mb();
	err = make_durable(image);
	if (!err) {
		cmpxchg(&image->sync, FLOOP_SYNCING, FLOOP_SYNCED);
		WRITE_ONCE(image->ahead.durable, undurable);
	}
	floop_times_touch(image);
	if (err) {
		floop_flush_fail(node, err);
		return err;
	}

	while (node) {
		struct floop_io *io = llist_entry(node, struct floop_io, node);

		node = node->next;
		if ((io->flags & FLOOP_IO_WRITTEN) || !bio_has_data(io->bio)) {
			io->flags |= FLOOP_IO_DURABLE;
			floop_io_end(io, BLK_STS_OK, NULL);
		} else {
			io->flags |= FLOOP_IO_FLUSHED;
			floop_lane_route(io);
		}
	}
	return 0;
}
