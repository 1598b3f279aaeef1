// SPDX-License-Identifier: GPL-2.0
/*
 * Properties of file systems. A file system doesn't report most of them, so
 * they go by its name or magic. A file system that isn't named here is treated
 * as the least capable one.
 */
#include <linux/blkdev.h>
#include <linux/fileattr.h>
#include <linux/fs.h>
#include <linux/highmem.h>
#include <linux/magic.h>
#include <linux/pagemap.h>
#include <linux/quota.h>
#include <linux/string.h>
#include <linux/unaligned.h>

#include "compat.h"
#include "direct.h"
#include "fs.h"
#include "image.h"
#include "rules.h"

/* The superblock of ext2 to ext4, on the disk. */
#define EXT_SUPERBLOCK		1024
#define EXT_FEATURE_COMPAT	(EXT_SUPERBLOCK + 92)	/* le32 */
#define EXT_HAS_JOURNAL		0x4
#define EXT_JOURNAL_INODE	(EXT_SUPERBLOCK + 224)	/* le32 */

/**
 * floop_fs_is_xfs() - is a file on xfs?
 * @inode: the file's inode
 *
 * Context: Any.
 * Return: true if it is.
 */
bool floop_fs_is_xfs(const struct inode *inode)
{
	return !strcmp(inode->i_sb->s_type->name, "xfs");
}

/**
 * floop_fs_is_realtime() - may a file of xfs be on its realtime device?
 * @file: the file
 *
 * Asks the file system itself: vfs_fileattr_get() may ask others whether the
 * current task has the right to know.
 *
 * Context: Process context. May sleep.
 * Return: false if it is known not to be.
 */
bool floop_fs_is_realtime(struct file *file)
{
	const struct inode_operations *ops = file_inode(file)->i_op;
	struct floop_fileattr attributes = { };

	return !ops->fileattr_get ||
	       ops->fileattr_get(file_dentry(file), &attributes) ||
	       attributes.fsx_xflags & FS_XFLAG_REALTIME;
}

/**
 * floop_fs_is_supported() - can a lease make the file's mapping safe?
 * @file: the file from userspace
 *
 * On a supported file system, every change of a file's blocks waits for mapped
 * I/O, as docs/safety.md shows.
 *
 * Context: Any.
 * Return: true for a regular file of ext4 or xfs, but not of a file system on
 * top of one of them.
 */
bool floop_fs_is_supported(const struct file *file)
{
	const struct inode *inode = file->f_mapping->host;

	return S_ISREG(inode->i_mode) && inode == file_inode(file) &&
	       (floop_fs_is_xfs(inode) ||
		!strcmp(inode->i_sb->s_type->name, "ext4"));
}

/**
 * floop_fs_has_dsync() - does IOCB_DSYNC make a direct write durable?
 * @file: the file
 *
 * On other file systems FUA is a write and a flush. (FUSE ignores the flag when
 * it completes asynchronously.)
 *
 * Context: Process context. May sleep.
 * Return: true for a file system that is known to make such a write durable
 * before it completes it, an asynchronous one, too.
 */
bool floop_fs_has_dsync(const struct file *file)
{
	if (S_ISBLK(file_inode(file)->i_mode))
		return true;
	switch (file_inode(file)->i_sb->s_magic) {
	case EXT4_SUPER_MAGIC:	/* ext2 and ext3, too */
		return floop_fs_flushes_data(file);
	case XFS_SUPER_MAGIC:
	case BTRFS_SUPER_MAGIC:
		return true;
	default:
		return false;
	}
}

/**
 * floop_fs_flushes_data() - does an fsync flush the disk with the file's data?
 * @file: the file
 *
 * Where the journal of ext4 is on another disk, ext4_sync_file() leaves it to
 * the commit of the transaction that it waits for, and 6.12's commit flushes
 * the journal's disk only (jbd2_trans_will_send_data_barrier()).
 *
 * Context: Process context. May sleep.
 * Return: false if it may not.
 */
bool floop_fs_flushes_data(const struct file *file)
{
	struct super_block *sb = file_inode(file)->i_sb;
	struct folio *folio;
	u8 *head;
	bool elsewhere;

	if (sb->s_magic != EXT4_SUPER_MAGIC || !sb->s_bdev)
		return true;
	/* ext4 keeps its superblock there. */
	folio = read_mapping_folio(sb->s_bdev->bd_mapping, 0, NULL);
	if (IS_ERR(folio))
		return false;
	head = kmap_local_folio(folio, 0);
	elsewhere = (get_unaligned_le32(head + EXT_FEATURE_COMPAT) &
		     EXT_HAS_JOURNAL) &&
		    !get_unaligned_le32(head + EXT_JOURNAL_INODE);
	kunmap_local(head);
	folio_put(folio);
	return !elsewhere;
}

/**
 * floop_fs_passes_data_on() - do direct writes reach the disk as they are?
 * @image: the image
 *
 * Other file systems checksum, compress or mirror the data, so it must not
 * change on the way.
 *
 * Context: Any.
 * Return: true for a file system that is known to do nothing with the data but
 * pass it on.
 */
bool floop_fs_passes_data_on(const struct floop_image *image)
{
	if (image->is_bdev)
		return true;
	switch (file_inode(image->file)->i_sb->s_magic) {
	case EXT4_SUPER_MAGIC:
	case XFS_SUPER_MAGIC:
	case F2FS_SUPER_MAGIC:
	case MSDOS_SUPER_MAGIC:
	case EXFAT_SUPER_MAGIC:
	case TMPFS_MAGIC:
		return true;
	default:
		return false;
	}
}

/**
 * floop_fs_has_quota() - does the file system enforce a quota?
 * @file: the file
 *
 * Whether it limits this file's owner, group or project isn't looked at.
 *
 * Context: Process context. May sleep.
 * Return: true if a user, group or project may have less room than there is.
 */
bool floop_fs_has_quota(const struct file *file)
{
	struct super_block *sb = file_inode(file)->i_sb;
	struct qc_state state = {};
	int type;

	if (!sb->s_qcop || !sb->s_qcop->get_state ||
	    sb->s_qcop->get_state(sb, &state))
		return false;
	for (type = 0; type < MAXQUOTAS; type++)
		if (state.s_state[type].flags & QCI_LIMITS_ENFORCED)
			return true;
	return false;
}

/**
 * floop_fs_forbidden_flags() - which inode flags keep a file from being mapped?
 * @image: the image
 *
 * S_IMMUTABLE and S_APPEND forbid writes, even by those who have the file open
 * already. With the other flags every I/O needs the file system. Anybody with
 * the right to may set the flags by path while the image is attached.
 *
 * Context: Any.
 * Return: S_* flags, of which the file may have none.
 */
unsigned int floop_fs_forbidden_flags(const struct floop_image *image)
{
	unsigned int forbidden = S_DAX | S_ENCRYPTED | S_VERITY | S_SWAPFILE;

	if (image->is_bdev || !floop_rule_holds(FLOOP_RULE_FLAGS))
		return 0;
	if (!image->read_only)
		forbidden |= S_IMMUTABLE | S_APPEND;
	return forbidden;
}

/**
 * floop_fs_claims_more() - does direct I/O to the file have to be aligned more?
 * @image: the image
 *
 * xfs claims whole blocks of a file that has been cloned.
 *
 * Context: Process context. May sleep.
 * Return: true if more than when the image was attached.
 */
bool floop_fs_claims_more(struct floop_image *image)
{
	struct floop_direct_rules rules;

	floop_direct_learn(image->file, &rules);
	return rules.claimed > image->rules.claimed ||
	       rules.mem_mask > image->rules.mem_mask;
}

/**
 * floop_fs_is_required() - does every I/O to the file need its file system?
 * @image: the image
 *
 * Other openers may change the answer while the image is attached: ask again
 * when nobody else has it open.
 *
 * Context: Process context. May sleep.
 * Return: true if only the file system can do I/O to the file.
 */
bool floop_fs_is_required(struct floop_image *image)
{
	struct inode *inode = file_inode(image->file);
	struct floop_direct_rules rules;

	if (!image->direct ||
	    READ_ONCE(inode->i_flags) & floop_fs_forbidden_flags(image) ||
	    !inode->i_mapping->a_ops->bmap || !inode->i_op->fiemap)
		return true;
	/* For example, ext4 journals the data of the file. */
	floop_direct_learn(image->file, &rules);
	return !rules.file_can;
}

/*
 * Does the file system break layout leases where docs/safety.md relies on it?
 * In a kernel that no NFS server can hand out block layouts of
 * (CONFIG_EXPORTFS_BLOCK_OPS), xfs_break_leased_layouts() does nothing.
 */
static bool breaks_layouts(struct floop_image *image)
{
	return !floop_fs_is_xfs(file_inode(image->file)) ||
	       (IS_ENABLED(CONFIG_EXPORTFS_BLOCK_OPS) &&
		!floop_window_is_open(FLOOP_WINDOW_LAYOUTS));
}

/**
 * floop_fs_check() - can the image be mapped at all, as things stand?
 * @image: the image
 *
 * Context: Process context, with the device's lock held. May sleep.
 * Return: %FLOOP_UNMAPPED_NOT if it can, else the reason.
 */
enum floop_unmapped floop_fs_check(struct floop_image *image)
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
	if (!floop_fs_is_supported(image->file) || !disk)
		return FLOOP_UNMAPPED_FILE_SYSTEM;
	if (!breaks_layouts(image))
		return FLOOP_UNMAPPED_NO_LEASES;
	if (!image->own_file)
		return FLOOP_UNMAPPED_OPENED;
	if (bdev_is_zoned(disk))
		return FLOOP_UNMAPPED_DISK;
	/* The guard waits for a file on xfs that was cloned. */
	if (floop_fs_is_required(image) ||
	    (!floop_fs_is_xfs(file_inode(image->file)) &&
	     floop_fs_claims_more(image)))
		return FLOOP_UNMAPPED_FILE;
	return FLOOP_UNMAPPED_NOT;
}
