// SPDX-License-Identifier: GPL-2.0
/*
 * Whether I/O to an image can be direct. It is direct wherever the image allows
 * it, unless LOOP_SET_DIRECT_IO has turned it off, or the module's parameter
 * direct=asked makes it opt-in. Direct I/O leaves no second copy in the page
 * cache, and a flush below finds nothing to write back.
 *
 * A file system that doesn't state the rules of direct I/O to a file may refuse
 * it all the same. overlayfs has direct I/O for every file, but the file system
 * below may refuse it; minix refuses all of it. So try a direct read there
 * before any I/O depends on it. If an I/O is refused later, all I/O is buffered
 * from then on.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/blkdev.h>
#include <linux/completion.h>
#include <linux/fs.h>
#include <linux/math64.h>
#include <linux/sched/mm.h>
#include <linux/stat.h>
#include <linux/uio.h>

#include "change.h"
#include "compat.h"
#include "device.h"
#include "direct.h"
#include "fs.h"
#include "image.h"
#include "io.h"

/* The module's parameter direct=asked: only where the user asks for it. */
bool floop_direct_only_asked;

/* The largest alignment to try where a file system doesn't state it. */
#define MAX_ALIGN	4096U

static void rules_from_disk(struct block_device *bdev,
			    struct floop_direct_rules *rules)
{
	rules->align = bdev_logical_block_size(bdev);
	rules->mem_mask = bdev_dma_alignment(bdev);
}

static void rules_from_file(struct file *file, struct floop_direct_rules *rules)
{
	struct inode *inode = file->f_mapping->host;
	struct kstat stat;

	if (S_ISBLK(inode->i_mode)) {
		rules_from_disk(I_BDEV(inode), rules);
		return;
	}
	if (!vfs_getattr(&file->f_path, &stat, STATX_DIOALIGN, 0) &&
	    (stat.result_mask & STATX_DIOALIGN)) {
		rules->stated = true;
		rules->file_can = stat.dio_mem_align && stat.dio_offset_align;
		if (rules->file_can) {
			rules->align = stat.dio_offset_align;
			rules->mem_mask = min_t(unsigned int, PAGE_SIZE,
						stat.dio_mem_align) - 1;
		}
		return;
	}
	if (inode->i_sb->s_bdev) {
		rules_from_disk(inode->i_sb->s_bdev, rules);
		rules->mem_mask |= rules->align - 1;
	}
}

/**
 * floop_direct_learn() - get the rules of direct I/O to a file
 * @file: the file
 * @rules: filled in
 *
 * From STATX_DIOALIGN, as in statx(2): an alignment of 0 means that there is no
 * direct I/O to this file. For file systems that don't state it, take the
 * logical block size of the disk below, or 512 bytes without a disk. Most of
 * them want memory to be aligned like positions.
 *
 * Context: Process context. May sleep.
 */
void floop_direct_learn(struct file *file, struct floop_direct_rules *rules)
{
	*rules = (struct floop_direct_rules) {
		.odirect = file->f_mode & FMODE_CAN_ODIRECT,
		.file_can = true,
		.align = SECTOR_SIZE,
		.mem_mask = SECTOR_SIZE - 1,
	};
	rules_from_file(file, rules);
	rules->claimed = rules->align;
}

/* A direct read or write that is waited for. */
struct direct_wait {
	struct kiocb iocb;
	struct completion done;
	long result;
};

static void direct_done(struct kiocb *iocb, long result)
{
	struct direct_wait *wait = container_of(iocb, struct direct_wait, iocb);

	wait->result = result;
	complete(&wait->done);
}

/**
 * floop_direct_io() - direct read or write, and wait for it
 * @how: the file, position, priority and flags
 * @iter: the memory; its direction says read or write
 *
 * Submits asynchronous I/O. A synchronous iocb would do on most file systems,
 * but overlayfs and FUSE's passthrough pass on only the flags that preadv2()
 * knows. IOCB_DIRECT is none of them, so the I/O would be buffered.
 *
 * Context: Process context. Sleeps. For a write, freeze protection is held.
 * Return: bytes, or an errno.
 */
ssize_t floop_direct_io(const struct kiocb *how, struct iov_iter *iter)
{
	const struct file_operations *fop = how->ki_filp->f_op;
	struct direct_wait wait = { .iocb = *how };
	ssize_t ret;

	init_completion(&wait.done);
	wait.iocb.ki_flags |= IOCB_DIRECT;
	wait.iocb.ki_complete = direct_done;
	if (iov_iter_rw(iter) == WRITE) {
		wait.iocb.ki_flags |= IOCB_WRITE;
		ret = fop->write_iter(&wait.iocb, iter);
	} else {
		ret = fop->read_iter(&wait.iocb, iter);
	}
	if (ret != -EIOCBQUEUED)
		return ret;
	wait_for_completion(&wait.done);
	return wait.result;
}

static bool is_refusal(long result)
{
	return result == -EINVAL || result == -EOPNOTSUPP;
}

/* Is a direct read of @align bytes refused that is aligned to no more? */
static bool is_refused(struct floop_image *image, unsigned int align)
{
	return is_refusal(floop_image_read_direct(image, align, NULL, align,
						  align));
}

/**
 * floop_direct_probe() - try direct reads, and correct the rules
 * @image: an image without I/O in flight
 *
 * If a read is refused, try larger blocks; if they are refused, too, there is
 * no direct I/O. xfs, on the other hand, states whole blocks for a file that
 * has ever shared some, and takes the disk's sectors nevertheless.
 *
 * Context: Process context. Sleeps: it reads the image, unless the file system
 * states the rules.
 */
void floop_direct_probe(struct floop_image *image)
{
	struct floop_direct_rules *rules = &image->rules;
	struct block_device *disk = floop_image_disk(image);
	unsigned int sector = disk ? bdev_logical_block_size(disk) : 0;

	if (!rules->odirect || !rules->file_can || image->is_bdev ||
	    !(image->file->f_mode & FMODE_READ))
		return;
	if (floop_fs_is_xfs(file_inode(image->file)) && sector &&
	    sector < rules->align && !is_refused(image, sector))
		rules->align = sector;
	if (rules->stated || !is_refused(image, rules->align))
		return;
	if (rules->align < MAX_ALIGN && !is_refused(image, MAX_ALIGN)) {
		rules->align = MAX_ALIGN;
		rules->mem_mask |= MAX_ALIGN - 1;
	} else {
		rules->refused = true;
	}
}

/**
 * floop_direct_is_refusal() - has the file system refused direct I/O?
 * @image: the image
 * @result: its answer to a read or a write, in bytes or as a negative errno
 *
 * Context: Any.
 * Return: true if the same I/O may succeed when it is buffered.
 */
bool floop_direct_is_refusal(const struct floop_image *image, long result)
{
	return image->direct && is_refusal(result);
}

/**
 * floop_direct_refused() - do an I/O again once I/O is buffered
 * @io: a read or a write that has been refused; gone afterwards
 *
 * Buffered I/O beside direct I/O to the same page loses data, so all I/O in
 * flight has to end first. This one doesn't count as in flight until it is
 * submitted again.
 *
 * Context: Any, interrupts included.
 */
void floop_direct_refused(struct floop_io *io)
{
	struct floop_image *image = io->image;
	struct request_queue *q = image->dev->disk->queue;
	struct bio *bio = floop_io_release_bio(io);
	unsigned long flags;

	spin_lock_irqsave(&image->refused_lock, flags);
	bio_list_add(&image->refused, bio);
	/* Locked: an earlier run may end the bio, and the image with it. */
	schedule_work(&image->refused_work);
	spin_unlock_irqrestore(&image->refused_lock, flags);
	/* The image stays until the work has ended. */
	percpu_ref_put(&q->q_usage_counter);
}

/**
 * floop_direct_give_up() - go on with buffered I/O, for good
 * @work: the image's refused_work
 *
 * Context: Process context. Freezes the queue.
 */
void floop_direct_give_up(struct work_struct *work)
{
	struct floop_image *image = container_of(work, struct floop_image,
						 refused_work);
	struct gendisk *disk = image->dev->disk;
	unsigned int noio, memflags;
	struct bio_list bios;
	struct bio *bio;

	/* Mapped I/O is direct, and freezing the queue doesn't wait for it. */
	noio = memalloc_noio_save();
	floop_change_begin(image);
	memflags = floop_freeze_queue(disk->queue);
	image->rules.refused = true;
	image->direct = false;
	floop_unfreeze_queue(disk->queue, memflags);
	pr_warn_ratelimited("%s: the image's file system refuses direct I/O: buffered from now on\n",
			    disk->disk_name);
	floop_guard_break(image, NULL);
	floop_change_end(image, 0, (image->offset >> SECTOR_SHIFT) +
				   get_capacity(disk));
	memalloc_noio_restore(noio);

	spin_lock_irq(&image->refused_lock);
	bios = image->refused;
	bio_list_init(&image->refused);
	spin_unlock_irq(&image->refused_lock);
	while ((bio = bio_list_pop(&bios)))
		submit_bio_noacct(bio);
}

/**
 * floop_direct_freeze() - freeze the queue, with no refused I/O left
 * @image: the image of an attached device
 *
 * Refused I/O doesn't count as in flight, so a frozen queue alone doesn't wait
 * for it. It may be a part of a bio, from the reserve of the image, and belongs
 * where the image was when it came.
 *
 * Context: Process context, with the device's lock held. Sleeps.
 * Return: for floop_unfreeze_queue().
 */
unsigned int floop_direct_freeze(struct floop_image *image)
{
	struct request_queue *q = image->dev->disk->queue;
	unsigned int memflags = floop_freeze_queue(q);

	while (work_busy(&image->refused_work)) {
		floop_unfreeze_queue(q, memflags);
		flush_work(&image->refused_work);
		memflags = floop_freeze_queue(q);
	}
	return memflags;
}

/**
 * floop_direct_check() - can I/O be direct?
 * @image: the image
 * @block_size: the logical block size of the device, in bytes
 *
 * Context: Any.
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
	if (rules->refused)
		return FLOOP_DIRECT_REFUSED;
	div_u64_rem(image->offset, rules->align, &rest);
	if (rest)
		return FLOOP_DIRECT_OFFSET;
	if (block_size % rules->align)
		return FLOOP_DIRECT_BLOCK_SIZE;
	return FLOOP_DIRECT_OK;
}

/**
 * floop_direct_describe() - the text for a verdict
 * @image: the image
 * @verdict: the result of floop_direct_check()
 * @buf: where to
 * @size: the size of @buf, in bytes
 *
 * Context: Any.
 * Return: the length of the text.
 */
int floop_direct_describe(const struct floop_image *image,
			  enum floop_direct verdict, char *buf, size_t size)
{
	unsigned int align = image->rules.align;

	switch (verdict) {
	case FLOOP_DIRECT_OK:
		return scnprintf(buf, size, "direct");
	case FLOOP_DIRECT_OFF:
		return scnprintf(buf, size,
				 "turned off by LOOP_SET_DIRECT_IO");
	case FLOOP_DIRECT_NOT_ASKED:
		return scnprintf(buf, size,
				 "not asked for, and the parameter direct is asked");
	case FLOOP_DIRECT_NO_ODIRECT:
		return scnprintf(buf, size,
				 "the file system has no direct I/O");
	case FLOOP_DIRECT_NOT_THIS_FILE:
		return scnprintf(buf, size,
				 "the file system has no direct I/O to this file");
	case FLOOP_DIRECT_REFUSED:
		return scnprintf(buf, size,
				 "the file system refuses direct I/O to this file");
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
 * floop_direct_decide() - turn direct I/O on or off
 * @dev: the device
 * @image: its image
 * @block_size: its logical block size, in bytes
 * @asked: the user asked for direct I/O: log it if that can't be
 *
 * Context: Process context, with the device's lock held; no I/O in flight.
 */
void floop_direct_decide(struct floop_device *dev, struct floop_image *image,
			 unsigned int block_size, bool asked)
{
	enum floop_direct verdict = floop_direct_check(image, block_size);
	char why[96];

	image->direct = dev->want_direct && verdict == FLOOP_DIRECT_OK;
	if (asked && verdict != FLOOP_DIRECT_OK) {
		floop_direct_describe(image, verdict, why, sizeof(why));
		pr_warn_ratelimited("%s: no direct I/O: %s\n",
				    dev->disk->disk_name, why);
	}
}
