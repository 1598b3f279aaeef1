// SPDX-License-Identifier: GPL-2.0
/*
 * The sector size that an image's content was made for. Direct I/O on a disk
 * with 4096-byte sectors needs a device with such sectors. But a partition
 * table counts in the sectors that it was written with, and a file system won't
 * mount on sectors larger than its blocks. An image that worked on the in-tree
 * driver, in sectors of 512 bytes, has to work here. So only content that is
 * known to work with larger sectors gets them. That leaves out containers
 * (LUKS, LVM, md, bcache), for they pass on the sector size that they get.
 */
#include <linux/fs.h>
#include <linux/log2.h>
#include <linux/slab.h>
#include <linux/unaligned.h>

#include "image.h"

#define HEAD_SIZE	4096

/* The places of magic numbers and sizes in the head of an image, in bytes. */
#define XFS_SECTOR_SIZE		102	/* be16, after "XFSB" at 0 */
#define FAT_SECTOR_SIZE		11	/* le16, after a jump at 0 */
#define FAT_CLUSTER_SECTORS	13	/* u8 */
#define FAT_RESERVED		14	/* le16: sectors */
#define FAT_COPIES		16	/* u8 */
#define FAT_MEDIA		21	/* u8: 0xf0, or 0xf8 and up */
#define EXFAT_ID		3	/* "EXFAT   " */
#define EXFAT_SECTOR_SHIFT	108
#define NTFS_ID			3	/* "NTFS    " */
#define BOOT_SIGNATURE		510	/* 0x55 0xaa: MBR, FAT, NTFS */
#define EXT_SUPERBLOCK		1024
#define EXT_LOG_BLOCK_SIZE	(EXT_SUPERBLOCK + 24)	/* le32, of 1024 */
#define EXT_MAGIC		(EXT_SUPERBLOCK + 56)	/* le16 */
#define EROFS_MAGIC		1024	/* le32 */
#define EROFS_BLOCK_SHIFT	(EROFS_MAGIC + 12)
#define SWAP_ID			4086	/* "SWAPSPACE2", at a page's end */
#define MD_MAGIC		0xa92b4efc	/* le32, at 0 (1.1) ... */
#define MD_SUPERBLOCK		4096	/* ... or here (1.2) */
#define BTRFS_SUPERBLOCK	65536
#define BTRFS_ID		(BTRFS_SUPERBLOCK + 64)	/* "_BHRfS_M" */
#define BTRFS_SECTOR_SIZE	(BTRFS_SUPERBLOCK + 144)	/* le32 */

static bool text_at(struct floop_image *image, loff_t pos, const char *text)
{
	char buf[8];
	size_t len = strlen(text);

	return floop_image_read(image, pos, buf, len) == len &&
	       !memcmp(buf, text, len);
}

/* An array's superblock doesn't overwrite older content at the front. */
static bool is_md(struct floop_image *image, const u8 *head)
{
	u8 magic[4];

	return get_unaligned_le32(head) == MD_MAGIC ||
	       (floop_image_read(image, image->offset + MD_SUPERBLOCK, magic,
				 sizeof(magic)) == sizeof(magic) &&
		get_unaligned_le32(magic) == MD_MAGIC);
}

static bool is_btrfs_of(struct floop_image *image, loff_t offset,
			unsigned int block_size)
{
	u8 size[4];

	return text_at(image, offset + BTRFS_ID, "_BHRfS_M") &&
	       floop_image_read(image, offset + BTRFS_SECTOR_SIZE, size,
				sizeof(size)) == sizeof(size) &&
	       get_unaligned_le32(size) >= block_size;
}

/*
 * Is it a boot sector of FAT or NTFS? Checks as fat_read_bpb() does, for boot
 * code may begin with a jump, too: grub-install puts one ahead of the code that
 * parted has written on many a disk.
 */
static bool has_parameters(const u8 *head)
{
	unsigned int size = get_unaligned_le16(head + FAT_SECTOR_SIZE);
	u8 media = head[FAT_MEDIA];

	if (!is_power_of_2(size) || size < SECTOR_SIZE || size > HEAD_SIZE)
		return false;
	return !memcmp(head + NTFS_ID, "NTFS    ", 8) ||
	       (is_power_of_2(head[FAT_CLUSTER_SECTORS]) &&
		get_unaligned_le16(head + FAT_RESERVED) && head[FAT_COPIES] &&
		(media == 0xf0 || media >= 0xf8));
}

/* The sector size in a boot sector of FAT, exFAT or NTFS; 0 for any other. */
static unsigned int boot_sector_size(const u8 *head)
{
	if (head[0] != 0xeb && head[0] != 0xe9)
		return 0;
	if (!memcmp(head + EXFAT_ID, "EXFAT   ", 8))
		return head[EXFAT_SECTOR_SHIFT] < 13 ?
		       1U << head[EXFAT_SECTOR_SHIFT] : 0;
	return has_parameters(head) ?
	       get_unaligned_le16(head + FAT_SECTOR_SIZE) : 0;
}

static bool head_takes(struct floop_image *image, const u8 *head,
		       unsigned int block_size)
{
	loff_t offset = image->offset;

	if (head[BOOT_SIGNATURE] == 0x55 && head[BOOT_SIGNATURE + 1] == 0xaa) {
		/* A GPT's header is in the second sector, whatever its size. */
		if (!memcmp(head + SECTOR_SIZE, "EFI PART", 8))
			return false;
		return boot_sector_size(head) >= block_size ||
		       text_at(image, offset + block_size, "EFI PART");
	}
	if (!memcmp(head, "XFSB", 4))
		return get_unaligned_be16(head + XFS_SECTOR_SIZE) >= block_size;
	if (get_unaligned_le16(head + EXT_MAGIC) == 0xef53) {
		u32 log = get_unaligned_le32(head + EXT_LOG_BLOCK_SIZE);

		return log < 7 && (1024U << log) >= block_size;
	}
	if (get_unaligned_le32(head + EROFS_MAGIC) == 0xe0f5e1e2)
		return head[EROFS_BLOCK_SHIFT] < 17 &&
		       1U << head[EROFS_BLOCK_SHIFT] >= block_size;
	if (!memcmp(head, "hsqs", 4) ||
	    !memcmp(head + SWAP_ID, "SWAPSPACE2", 10))
		return block_size <= HEAD_SIZE;
	return is_btrfs_of(image, offset, block_size);
}

/**
 * floop_content_takes() - was the image made for blocks of this size?
 * @image: the image
 * @block_size: the logical block size that the device would get, in bytes
 *
 * Knows GPT, FAT, exFAT and NTFS, ext2 to ext4, xfs, btrfs, squashfs, erofs and
 * swap. Other content, and content that can't be read, counts as not made for
 * it.
 *
 * Context: Process context. Sleeps: it reads the image.
 * Return: true if the content is known, and blocks of @block_size are fine.
 */
bool floop_content_takes(struct floop_image *image, unsigned int block_size)
{
	bool takes = false;
	u8 *head;

	head = kzalloc(HEAD_SIZE, GFP_KERNEL);
	if (!head)
		return false;
	if (floop_image_read(image, image->offset, head,
			     HEAD_SIZE) == HEAD_SIZE && !is_md(image, head))
		takes = head_takes(image, head, block_size);
	kfree(head);
	return takes;
}
