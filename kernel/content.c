// SPDX-License-Identifier: GPL-2.0
/*
 * What an image's content says of the sectors it was made for. Direct I/O on a
 * disk with 4096-byte sectors needs a device with such sectors; but a partition
 * table counts in the sectors that it was written with, and a file system won't
 * mount on larger ones than its blocks. An image that worked on the in-tree
 * driver, in sectors of 512 bytes, has to work here: it is read before larger
 * sectors are chosen for it.
 */
#include <linux/fs.h>
#include <linux/slab.h>
#include <linux/unaligned.h>

#include "content.h"
#include "image.h"

#define HEAD_SIZE	2048

/* Where what we look for lies in the head of an image, in bytes. */
#define XFS_SECTOR_SIZE		102	/* be16, after "XFSB" at 0 */
#define FAT_SECTOR_SIZE		11	/* le16, after a jump at 0 */
#define BOOT_SIGNATURE		510	/* 0x55 0xaa: MBR, FAT, NTFS */
#define EXT_SUPERBLOCK		1024
#define EXT_LOG_BLOCK_SIZE	(EXT_SUPERBLOCK + 24)	/* le32, of 1024 */
#define EXT_MAGIC		(EXT_SUPERBLOCK + 56)	/* le16 */
#define ISO_ID			32769	/* "CD001", sectors of 2048 */
#define ISO_SECTOR_SIZE		2048

static bool text_at(struct floop_image *image, loff_t pos, const char *text)
{
	char buf[8];
	size_t len = strlen(text);

	return floop_image_read(image, pos, buf, len) == len &&
	       !memcmp(buf, text, len);
}

/**
 * floop_content_needs_small() - was the image made for smaller blocks?
 * @image: the image
 * @block_size: the logical block size that the device would get, in bytes
 *
 * Knows GPT, MBR, FAT and NTFS, ext2 to ext4, xfs and ISO 9660. What it doesn't
 * know doesn't count.
 *
 * Context: Process context. Reads the image.
 * Return: true if blocks of @block_size would make the content unreadable.
 */
bool floop_content_needs_small(struct floop_image *image,
			       unsigned int block_size)
{
	loff_t offset = image->offset;
	bool small = false;
	u8 *head;

	head = kzalloc(HEAD_SIZE, GFP_KERNEL);
	if (!head)
		return true;
	/* What can't be read is left in the sectors that work for everything. */
	if (floop_image_read(image, offset, head, HEAD_SIZE) != HEAD_SIZE) {
		small = true;
		goto out;
	}

	if (!memcmp(head, "XFSB", 4)) {
		small = get_unaligned_be16(head + XFS_SECTOR_SIZE) < block_size;
	} else if (get_unaligned_le16(head + EXT_MAGIC) == 0xef53) {
		u32 log = get_unaligned_le32(head + EXT_LOG_BLOCK_SIZE);

		small = log < 7 && (1024U << log) < block_size;
	} else if (head[BOOT_SIGNATURE] == 0x55 &&
		   head[BOOT_SIGNATURE + 1] == 0xaa) {
		/* A GPT's header is in the second sector, whatever its size. */
		if (text_at(image, offset + block_size, "EFI PART"))
			small = false;
		else if (head[0] == 0xeb || head[0] == 0xe9)
			small = get_unaligned_le16(head + FAT_SECTOR_SIZE) <
				block_size;
		else
			small = true;
	}
	if (!small && text_at(image, offset + ISO_ID, "CD001"))
		small = ISO_SECTOR_SIZE < block_size;
out:
	kfree(head);
	return small;
}
