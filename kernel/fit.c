// SPDX-License-Identifier: GPL-2.0
/*
 * Whether an image is one that can be mapped, whoever has it open.
 */
#include <linux/blkdev.h>
#include <linux/fs.h>

#include "direct.h"
#include "fit.h"
#include "image.h"
#include "lease.h"
#include "rules.h"

/**
 * floop_fit_never() - which inode flags keep a file from being mapped?
 * @image: the image
 *
 * An immutable or append-only file is not to be written to any more, even by
 * who has it open; the others need their file system for every I/O. Others may
 * set them while the image is attached, by path.
 *
 * Return: S_* flags, of which the file may have none.
 */
unsigned int floop_fit_never(const struct floop_image *image)
{
	unsigned int never = S_DAX | S_ENCRYPTED | S_VERITY | S_SWAPFILE;

	if (image->is_bdev || !floop_rule_holds(FLOOP_RULE_FLAGS))
		return 0;
	return image->read_only ? never : never | S_IMMUTABLE | S_APPEND;
}

/**
 * floop_fit_is_special() - must every I/O to the file go through its file system?
 * @image: the image
 *
 * What others may change about the file while it is attached: ask again once it
 * is known that nobody else has it open.
 *
 * Context: Process context. May sleep.
 * Return: whether there is something about it that only its file system can do.
 */
bool floop_fit_is_special(struct floop_image *image)
{
	struct inode *inode = file_inode(image->file);
	struct floop_direct_rules rules;

	if (!image->direct ||
	    READ_ONCE(inode->i_flags) & floop_fit_never(image) ||
	    !inode->i_mapping->a_ops->bmap)
		return true;
	/* Among others, a file that ext4 journals the data of. */
	floop_direct_learn(image->file, &rules);
	return !rules.file_can || rules.claimed > image->rules.claimed ||
	       rules.mem_mask > image->rules.mem_mask;
}

/**
 * floop_fit_check() - can the image be mapped at all, as things stand?
 * @image: the image
 *
 * Context: Process context, with the device's lock held. May sleep.
 * Return: %FLOOP_UNMAPPED_NOT if it can, else the reason.
 */
enum floop_unmapped floop_fit_check(struct floop_image *image)
{
	struct block_device *disk = floop_image_disk(image);

	/* The map is by unsigned long, and has a bias that takes 64 bits. */
	if (!IS_ENABLED(CONFIG_64BIT))
		return FLOOP_UNMAPPED_DISK;
	if (!image->direct)
		return FLOOP_UNMAPPED_BUFFERED;
	if (image->is_bdev)
		return bdev_is_zoned(disk) ? FLOOP_UNMAPPED_DISK :
					     FLOOP_UNMAPPED_NOT;
	if (!floop_lease_is_known(image->file) || !disk)
		return FLOOP_UNMAPPED_FILE_SYSTEM;
	if (!image->own_file)
		return FLOOP_UNMAPPED_OPENED;
	if (bdev_is_zoned(disk))
		return FLOOP_UNMAPPED_DISK;
	return floop_fit_is_special(image) ? FLOOP_UNMAPPED_FILE :
					     FLOOP_UNMAPPED_NOT;
}
