// SPDX-License-Identifier: GPL-2.0
/*
 * The queue's limits, which follow from the image. They change while the queue
 * is frozen, with the queue's limits_lock taken first, or while nobody uses the
 * device.
 */
#include <linux/blk-mq.h>
#include <linux/blkdev.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <linux/pagemap.h>
#include <linux/statfs.h>

#include "compat.h"
#include "device.h"
#include "fs.h"
#include "image.h"
#include "limits.h"

/**
 * floop_limits_block_size() - the logical block size where the user chose none
 * @dev: the device
 * @image: its image, or the one that it is to have
 * @size: the size that the device shows of it, in sectors of 512 bytes
 * @asked: the user asked for direct I/O
 *
 * The default is 512 bytes, as on the in-tree driver. Direct I/O may need
 * larger blocks (a disk with 4096-byte sectors). They are chosen if the user
 * asked for direct I/O, or if the content is known to be made for them and the
 * device's size is a multiple. Unknown content was written in sectors of 512
 * bytes, and could not be found in larger ones.
 *
 * Context: Process context. May read the image.
 * Return: the size in bytes.
 */
unsigned int floop_limits_block_size(struct floop_device *dev,
				     struct floop_image *image, sector_t size,
				     bool asked)
{
	unsigned int align = image->rules.align;

	if (align <= SECTOR_SIZE || blk_validate_block_size(align) ||
	    floop_direct_check(image, align) != FLOOP_DIRECT_OK ||
	    !dev->want_direct)
		return SECTOR_SIZE;
	if (asked)
		return align;
	if ((size & ((align >> SECTOR_SHIFT) - 1)) ||
	    !floop_content_takes(image, align))
		return SECTOR_SIZE;
	return align;
}

/*
 * A discarded range becomes a hole and reads as zeroes. On a block device that
 * is write-zeroes with unmap, not discard, so its limit for that counts.
 */
static void set_discard(struct floop_image *image, struct queue_limits *lim)
{
	struct file *file = image->file;
	unsigned int sectors = 0, granularity = 0;
	struct kstatfs statfs;

	if (image->is_bdev) {
		struct block_device *bdev = I_BDEV(file->f_mapping->host);

		sectors = bdev_write_zeroes_sectors(bdev);
		granularity = bdev_discard_granularity(bdev);
	} else if (file->f_op->fallocate &&
		   !vfs_statfs(&file->f_path, &statfs)) {
		sectors = UINT_MAX >> SECTOR_SHIFT;
		granularity = statfs.f_bsize;
	}
	lim->max_hw_discard_sectors = sectors;
	/* Blocks are kept by writing zeroes to them. */
	lim->max_write_zeroes_sectors = image->dev->keep_blocks ? 0 : sectors;
	lim->discard_granularity = sectors ? granularity : 0;
}

static void drop_unsupported(struct floop_image *image,
			     struct queue_limits *lim)
{
	unsigned long modes = READ_ONCE(image->unsupported);

	if (modes & FALLOC_FL_ZERO_RANGE)
		lim->max_write_zeroes_sectors = 0;
	if (modes & FALLOC_FL_PUNCH_HOLE) {
		lim->max_hw_discard_sectors = 0;
		lim->discard_granularity = 0;
	}
}

/*
 * Direct I/O hands the submitter's pages to the image's file system, which may
 * checksum or mirror them: then they must not change on the way. Stable pages
 * aren't needed if the file system is known to do neither, and neither it nor
 * the disk below asks for them. (btrfs checksums, but doesn't ask for them; ZFS
 * verifies its writes.)
 */
static bool needs_stable_writes(struct floop_image *image)
{
	struct block_device *disk = floop_image_disk(image);

	return mapping_stable_writes(image->file->f_mapping) ||
	       (disk && bdev_stable_writes(disk)) ||
	       !floop_fs_passes_data_on(image);
}

/**
 * floop_limits_direct() - set the limits that go with direct I/O
 * @image: the image, with direct I/O decided
 * @lim: limits that are being updated
 *
 * Context: Any.
 */
void floop_limits_direct(struct floop_image *image, struct queue_limits *lim)
{
	lim->dma_alignment = SECTOR_SIZE - 1;
	/*
	 * BLK_FEAT_POLL stays off even if the disk has it: a mapped bio holds
	 * the guard, and a polled one ends only if its submitter polls.
	 */
	lim->features &= ~BLK_FEAT_STABLE_WRITES;
	if (!image->direct)
		return;
	lim->dma_alignment = max_t(unsigned int, lim->dma_alignment,
				   image->rules.mem_mask);
	if (needs_stable_writes(image))
		lim->features |= BLK_FEAT_STABLE_WRITES;
}

/**
 * floop_limits_set() - set the limits that follow from an image
 * @image: the image
 * @lim: limits that are being updated
 * @block_size: the logical block size, in bytes
 *
 * floop_limits_direct() adds the limits of direct I/O.
 *
 * Context: Process context, with the device's lock held. May sleep.
 */
void floop_limits_set(struct floop_image *image, struct queue_limits *lim,
		      unsigned int block_size)
{
	struct block_device *disk = floop_image_disk(image);

	lim->logical_block_size = block_size;
	lim->physical_block_size = block_size;
	lim->io_min = block_size;
	lim->features &= ~(BLK_FEAT_WRITE_CACHE | BLK_FEAT_FUA |
			   BLK_FEAT_ROTATIONAL);
	if (image->file->f_op->fsync && !image->read_only)
		lim->features |= BLK_FEAT_WRITE_CACHE | BLK_FEAT_FUA;
	if (disk && floop_bdev_rotational(disk))
		lim->features |= BLK_FEAT_ROTATIONAL;
	set_discard(image, lim);
	drop_unsupported(image, lim);
}

/**
 * floop_limits_attach() - limits for a device that is being attached
 * @dev: the device, unbound
 * @image: its new image; direct I/O is decided here
 * @block_size: the logical block size, in bytes
 * @asked: the user asked for direct I/O: log it if that can't be
 *
 * Context: Process context, with the device's lock held. May sleep.
 * Return: 0, or -EINVAL for an impossible block size.
 */
int floop_limits_attach(struct floop_device *dev, struct floop_image *image,
			unsigned int block_size, bool asked)
{
	struct request_queue *q = dev->disk->queue;
	struct queue_limits lim = queue_limits_start_update(q);

	floop_direct_decide(dev, image, block_size, asked);
	floop_limits_set(image, &lim, block_size);
	floop_limits_direct(image, &lim);
	return queue_limits_commit_update(q, &lim);
}

/* End an update of the limits of a queue that may be in use. */
static int commit_frozen(struct request_queue *q, struct queue_limits *lim)
{
	unsigned int memflags = floop_freeze_queue(q);
	int err = queue_limits_commit_update(q, lim);

	floop_unfreeze_queue(q, memflags);
	return err;
}

/**
 * floop_limits_drop() - clear the limits of operations that are unsupported
 * @dev: the device
 * @image: the image, with @image->unsupported set; closing it waits for us
 *
 * Context: Process context. Freezes the queue.
 */
void floop_limits_drop(struct floop_device *dev, struct floop_image *image)
{
	struct request_queue *q = dev->disk->queue;
	struct queue_limits lim = queue_limits_start_update(q);

	drop_unsupported(image, &lim);
	commit_frozen(q, &lim);
}

/**
 * floop_limits_discard() - set the limits of discard and write-zeroes
 * @dev: the device, with an image
 *
 * Context: Process context, with the device's lock held. Freezes the queue.
 * Return: 0 or an errno.
 */
int floop_limits_discard(struct floop_device *dev)
{
	struct request_queue *q = dev->disk->queue;
	struct queue_limits lim = queue_limits_start_update(q);

	set_discard(dev->image, &lim);
	drop_unsupported(dev->image, &lim);
	return commit_frozen(q, &lim);
}

/**
 * floop_limits_detach() - limits for a device without an image
 * @dev: the device; nobody has it open
 *
 * Context: Process context. May sleep.
 */
void floop_limits_detach(struct floop_device *dev)
{
	struct request_queue *q = dev->disk->queue;
	struct queue_limits lim = queue_limits_start_update(q);

	lim.logical_block_size = SECTOR_SIZE;
	lim.physical_block_size = SECTOR_SIZE;
	lim.io_min = SECTOR_SIZE;
	queue_limits_commit_update(q, &lim);
}
