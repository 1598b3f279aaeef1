// SPDX-License-Identifier: GPL-2.0
/*
 * Whether I/O to an image can be direct. It is wherever the image allows it,
 * unless LOOP_SET_DIRECT_IO turned it off: no second copy in the page cache,
 * and a flush below finds nothing to write back.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/blkdev.h>
#include <linux/fs.h>
#include <linux/math64.h>
#include <linux/stat.h>

#include "device.h"
#include "direct.h"
#include "image.h"

static void learn_from_disk(struct block_device *bdev,
			    struct floop_direct_rules *rules)
{
	rules->align = bdev_logical_block_size(bdev);
	rules->mem_mask = bdev_dma_alignment(bdev);
}

/**
 * floop_direct_learn() - what direct I/O to a file asks for
 * @file: the file
 * @rules: filled in
 *
 * From STATX_DIOALIGN, as in statx(2): an alignment of 0 means that there is no
 * direct I/O to this file. File systems that don't say get by with what the
 * disk below asks for, or 512 bytes without one.
 *
 * Context: Process context. May sleep.
 */
void floop_direct_learn(struct file *file, struct floop_direct_rules *rules)
{
	struct inode *inode = file->f_mapping->host;
	struct kstat stat;

	rules->odirect = file->f_mode & FMODE_CAN_ODIRECT;
	rules->file_can = true;
	rules->align = SECTOR_SIZE;
	rules->mem_mask = SECTOR_SIZE - 1;

	if (S_ISBLK(inode->i_mode)) {
		learn_from_disk(I_BDEV(inode), rules);
		return;
	}
	if (!vfs_getattr(&file->f_path, &stat, STATX_DIOALIGN, 0) &&
	    (stat.result_mask & STATX_DIOALIGN)) {
		rules->file_can = stat.dio_mem_align && stat.dio_offset_align;
		if (rules->file_can) {
			rules->align = stat.dio_offset_align;
			rules->mem_mask = min_t(unsigned int, PAGE_SIZE,
						stat.dio_mem_align) - 1;
		}
		return;
	}
	if (inode->i_sb->s_bdev)
		learn_from_disk(inode->i_sb->s_bdev, rules);
}

/**
 * floop_direct_check() - can I/O be direct?
 * @image: the image
 * @block_size: the logical block size of the device, in bytes
 *
 * Return: %FLOOP_DIRECT_OK or the reason why not.
 */
enum floop_direct floop_direct_check(const struct floop_image *image,
				     unsigned int block_size)
{
	const struct floop_direct_rules *rules = &image->rules;
	u32 rest;

	if (!rules->odirect)
		return FLOOP_DIRECT_NO_ODIRECT;
	if (!rules->file_can)
		return FLOOP_DIRECT_NOT_THIS_FILE;
	div_u64_rem(image->offset, rules->align, &rest);
	if (rest)
		return FLOOP_DIRECT_OFFSET;
	if (block_size % rules->align)
		return FLOOP_DIRECT_BLOCK_SIZE;
	return FLOOP_DIRECT_OK;
}

/**
 * floop_direct_say() - put a verdict in words
 * @image: the image
 * @verdict: what floop_direct_check() found
 * @buf: where to
 * @size: of @buf, in bytes
 *
 * Return: the length of the text.
 */
int floop_direct_say(const struct floop_image *image, enum floop_direct verdict,
		     char *buf, size_t size)
{
	unsigned int align = image->rules.align;

	switch (verdict) {
	case FLOOP_DIRECT_OK:
		return scnprintf(buf, size, "direct");
	case FLOOP_DIRECT_OFF:
		return scnprintf(buf, size, "turned off by LOOP_SET_DIRECT_IO");
	case FLOOP_DIRECT_NO_ODIRECT:
		return scnprintf(buf, size,
				 "the file system has no direct I/O");
	case FLOOP_DIRECT_NOT_THIS_FILE:
		return scnprintf(buf, size,
				 "the file system has no direct I/O to this file");
	case FLOOP_DIRECT_OFFSET:
		return scnprintf(buf, size,
				 "offset %lld is not a multiple of %u",
				 image->offset, align);
	case FLOOP_DIRECT_BLOCK_SIZE:
		return scnprintf(buf, size,
				 "the block size is not a multiple of the %u bytes that direct I/O to the image takes",
				 align);
	}
	return 0;
}

/**
 * floop_direct_decide() - turn direct I/O on where it can be and may be
 * @dev: the device; its LO_FLAGS_DIRECT_IO is set to what comes out
 * @image: its image
 * @block_size: its logical block size, in bytes
 * @asked: someone asked for direct I/O in so many words, and is told why not
 *
 * Context: Process context, with the device's lock held; no I/O in flight.
 */
void floop_direct_decide(struct floop_device *dev, struct floop_image *image,
			 unsigned int block_size, bool asked)
{
	enum floop_direct verdict = floop_direct_check(image, block_size);
	char why[96];

	image->direct = dev->want_direct && verdict == FLOOP_DIRECT_OK;
	if (image->direct)
		dev->flags |= LO_FLAGS_DIRECT_IO;
	else
		dev->flags &= ~LO_FLAGS_DIRECT_IO;

	if (asked && verdict != FLOOP_DIRECT_OK) {
		floop_direct_say(image, verdict, why, sizeof(why));
		pr_warn("%s: no direct I/O: %s\n", dev->disk->disk_name, why);
	}
}
