// SPDX-License-Identifier: GPL-2.0
/*
 * Discard and write-zeroes: they punch holes into the image, or zero ranges of
 * it. A discarded range reads as zeroes, unless the device keeps its blocks:
 * then a discard does nothing, and the block layer writes zeroes itself. (A
 * zeroed range is unwritten, so it isn't mapped; and xfs frees its blocks first
 * and allocates others, which somebody else may have taken.)
 */
#include <linux/blkdev.h>
#include <linux/falloc.h>
#include <linux/fs.h>

#include "change.h"
#include "device.h"
#include "image.h"
#include "io.h"
#include "limits.h"
#include "rules.h"

/*
 * Don't call vfs_fallocate(): fanotify may have it wait for a process, which
 * may wait for memory, which may wait for us.
 */
static int discard_range(struct floop_image *image, int mode, loff_t pos,
			 loff_t size)
{
	struct inode *inode = image->file->f_mapping->host;

	/* As vfs_fallocate(): the kernel has the blocks of a swap file. */
	if (READ_ONCE(inode->i_flags) & (S_IMMUTABLE | S_APPEND | S_SWAPFILE))
		return -EPERM;
	return image->file->f_op->fallocate(image->file,
					    mode | FALLOC_FL_KEEP_SIZE, pos,
					    size);
}

static int discard_guarded(struct floop_image *image, int mode, loff_t pos,
			   loff_t size)
{
	sector_t sector = pos >> SECTOR_SHIFT, nr = size >> SECTOR_SHIFT;
	bool hole = floop_change_hole_begin(image, sector, nr);
	int err = -EIO;

	if (hole || floop_change_begin(image)) {
		floop_window(FLOOP_WINDOW_CHANGE);
		file_start_write(image->file);
		err = discard_range(image, mode, pos, size);
		file_end_write(image->file);
	}
	if (!err)
		floop_spare_forget(&image->spare, sector, sector + nr);
	if (hole)
		floop_change_hole_end(image, sector, nr);
	else
		floop_change_end(image, sector, nr);
	return err;
}

/**
 * floop_discard() - discard a range, or fill it with zeroes
 * @io: REQ_OP_DISCARD or REQ_OP_WRITE_ZEROES
 *
 * A file system that can't do it is asked once. Then the queue's limits are
 * cleared, and the block layer writes zeroes where that is enough.
 *
 * Context: A worker of the image, in its reclaim scope. Sleeps.
 */
void floop_discard(struct floop_io *io)
{
	struct floop_image *image = io->image;
	struct file *file = image->file;
	struct bio *bio = io->bio;
	loff_t pos = image->offset +
		     ((loff_t)bio->bi_iter.bi_sector << SECTOR_SHIFT);
	int mode = FALLOC_FL_PUNCH_HOLE;
	int err;

	if (bio_op(bio) == REQ_OP_WRITE_ZEROES && (bio->bi_opf & REQ_NOUNMAP))
		mode = FALLOC_FL_ZERO_RANGE;
	if (test_bit(ilog2(mode), &image->unsupported)) {
		floop_io_end(io, BLK_STS_NOTSUPP, NULL);
		return;
	}
	/* As for a write: the file system zeroes nothing beyond the end. */
	if (pos + bio->bi_iter.bi_size > i_size_read(file->f_mapping->host)) {
		floop_io_end(io, BLK_STS_IOERR, NULL);
		return;
	}

	if (image->is_bdev)
		err = discard_range(image, mode, pos, bio->bi_iter.bi_size);
	else
		err = discard_guarded(image, mode, pos, bio->bi_iter.bi_size);

	if (err == -EOPNOTSUPP) {
		set_bit(ilog2(mode), &image->unsupported);
		schedule_work(&image->unsupported_work);
	}
	floop_io_end(io, err ? floop_io_status(err) : BLK_STS_OK, NULL);
}

/**
 * floop_discard_kept() - answer a bio of a device that keeps its blocks
 * @bio: REQ_OP_DISCARD or REQ_OP_WRITE_ZEROES
 *
 * The limit of write-zeroes is 0, but the block layer looks at it before the
 * bio is in the queue's usage counter. One that comes all the same is refused
 * as there, and its submitter writes zeroes.
 *
 * Context: Process context, in the queue's usage counter. Doesn't sleep.
 */
void floop_discard_kept(struct bio *bio)
{
	if (bio_op(bio) == REQ_OP_WRITE_ZEROES)
		bio->bi_status = BLK_STS_NOTSUPP;
	else if (blk_queue_io_stat(bdev_get_queue(bio->bi_bdev)))
		bio_end_io_acct(bio, bio_start_io_acct(bio));
	bio_endio(bio);
}

/**
 * floop_discard_unsupported() - clear the queue's limits for unsupported modes
 * @work: the image's unsupported_work
 *
 * The failed I/O can't do this itself: limits change under a frozen queue, and
 * freezing waits for all I/O.
 *
 * Context: Process context. Sleeps.
 */
void floop_discard_unsupported(struct work_struct *work)
{
	struct floop_image *image =
		container_of(work, struct floop_image, unsupported_work);

	floop_limits_drop(image->dev, image);
}
