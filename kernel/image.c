// SPDX-License-Identifier: GPL-2.0
/*
 * Open a file as an image, check it for cycles, and close it.
 */
#include <linux/file.h>
#include <linux/log2.h>
#include <linux/slab.h>
#include <linux/stat.h>
#include <linux/uio.h>

#include "ask.h"
#include "device.h"
#include "fs.h"
#include "helper.h"
#include "image.h"
#include "io.h"
#include "lease.h"

/* Mempool reserve of an image: enough to make progress when memory is short. */
#define RESERVE		4

int floop_queue_depth = 128;
/* For work that only the close of an image waits for. */
struct workqueue_struct *floop_background_wq;
static struct kmem_cache *io_cache;

/**
 * floop_image_init() - set up caches and the workqueues that all images share
 *
 * Context: Process context. May sleep.
 * Return: 0 or -ENOMEM.
 */
int floop_image_init(void)
{
	io_cache = kmem_cache_create("floop_io", sizeof(struct floop_io),
				     0, SLAB_HWCACHE_ALIGN, NULL);
	if (!io_cache)
		return -ENOMEM;
	if (floop_bounce_init())
		goto err_cache;
	floop_background_wq = alloc_workqueue("floop_map",
					      WQ_UNBOUND | WQ_FREEZABLE, 0);
	if (!floop_background_wq)
		goto err_bounce;
	if (floop_ask_init())
		goto err_wq;
	return 0;

err_wq:
	destroy_workqueue(floop_background_wq);
err_bounce:
	floop_bounce_exit();
err_cache:
	kmem_cache_destroy(io_cache);
	return -ENOMEM;
}

/**
 * floop_image_exit() - undo floop_image_init()
 *
 * Context: Process context. May sleep.
 */
void floop_image_exit(void)
{
	floop_ask_exit();
	destroy_workqueue(floop_background_wq);
	floop_bounce_exit();
	kmem_cache_destroy(io_cache);
}

/**
 * floop_image_check() - can this kind of file be an image at all?
 * @file: the file that userspace handed in
 *
 * Context: Any.
 * Return: 0, or -EINVAL if it can't be read, or if it is open for writing but
 * can't be written.
 */
int floop_image_check(struct file *file)
{
	if (!file->f_op->read_iter)
		return -EINVAL;
	if ((file->f_mode & FMODE_WRITE) && !file->f_op->write_iter)
		return -EINVAL;
	return 0;
}

/* The block device itself, or the one below the file's file system, or NULL. */
static struct block_device *file_bdev_below(struct file *file)
{
	struct inode *inode = file->f_mapping->host;

	if (S_ISBLK(inode->i_mode))
		return I_BDEV(inode);
	return inode->i_sb->s_bdev;
}

/**
 * floop_image_disk() - the block device below an image
 * @image: the image
 *
 * Context: Any.
 * Return: the image itself if it is a block device, else the one that its file
 * system is mounted from; NULL if there is none (tmpfs, btrfs, network file
 * systems).
 */
struct block_device *floop_image_disk(struct floop_image *image)
{
	return file_bdev_below(image->file);
}

/**
 * floop_image_is_on_hardware() - is the disk below known to be hardware?
 * @image: the image
 *
 * A hardware disk has a parent device and takes requests. A virtual disk (dm,
 * md, a loop device, nbd) has no parent, or takes bios, and may be made of
 * another floop device.
 *
 * Context: Any.
 * Return: true if I/O to the image can't be I/O to another floop device.
 */
bool floop_image_is_on_hardware(struct floop_image *image)
{
	struct block_device *disk = floop_image_disk(image);

	return disk && disk_to_dev(disk->bd_disk)->parent &&
	       !disk->bd_disk->fops->submit_bio;
}

/**
 * floop_image_check_cycle() - would a device end up below itself?
 * @file: the file that @dev is to be attached to
 * @dev: the device
 *
 * Follows images on floop devices, whether a device is the image itself or
 * carries the image's file system, down to the first device of another driver.
 * It can't see through stacking drivers (dm, md).
 *
 * Context: The topology lock is held, which keeps the images below in place.
 * Return: 0; -EBADF for a cycle; -EINVAL for an image on a device that is not
 * attached, or for one that is neither a regular file nor a block device. (As
 * the in-tree driver, which looks only at devices that are images themselves.)
 */
int floop_image_check_cycle(struct file *file, struct floop_device *dev)
{
	struct inode *inode = file->f_mapping->host;
	bool is_bdev = S_ISBLK(inode->i_mode);
	struct block_device *bdev;

	for (bdev = file_bdev_below(file); bdev; ) {
		struct floop_device *below = floop_device_of(bdev);
		struct floop_image *image;

		if (!below)
			break;
		if (below == dev)
			return -EBADF;
		if (READ_ONCE(below->state) != FLOOP_BOUND) {
			/* A mounted file system keeps its device. */
			if (!is_bdev)
				break;
			return -EINVAL;
		}
		/* Pairs with the release of the state in floop_attach(). */
		smp_rmb();
		image = READ_ONCE(below->image);
		if (!image)
			break;
		is_bdev = image->is_bdev;
		bdev = floop_image_disk(image);
	}
	if (!S_ISREG(inode->i_mode) && !S_ISBLK(inode->i_mode))
		return -EINVAL;
	return 0;
}

/**
 * floop_image_sectors() - the size that a device shows of a file
 * @file: the image
 * @offset: where the device begins, in bytes
 * @size_limit: the most to show, in bytes; 0 for no limit
 *
 * Asks the file system rather than the inode: a network file system's inode
 * may be out of date.
 *
 * Context: Process context. May sleep.
 * Return: the size in sectors of 512 bytes; 0 where @offset is beyond the end,
 * or the file system doesn't say.
 */
sector_t floop_image_sectors(struct file *file, loff_t offset,
			     loff_t size_limit)
{
	struct kstat stat;
	loff_t size;

	if (S_ISBLK(file_inode(file)->i_mode)) {
		size = i_size_read(file->f_mapping->host);
	} else {
		if (vfs_getattr_nosec(&file->f_path, &stat, STATX_SIZE, 0))
			return 0;
		size = stat.size;
	}

	if (size <= offset)
		return 0;
	size -= offset;
	if (size_limit && size_limit < size)
		size = size_limit;
	return size >> SECTOR_SHIFT;
}

/**
 * floop_image_make_durable() - fsync an image for the guard
 * @image: an image with files of our own
 *
 * Chunks that are mapped by now are durable then (chunk.c).
 *
 * Context: Process context. Sleeps.
 * Return: 0 or an errno; the device's next flush fails with the same.
 */
int floop_image_make_durable(struct floop_image *image)
{
	unsigned long undurable = READ_ONCE(image->ahead.undurable);
	int err;

	/* A chunk that is counted after this is not covered by the fsync. */
	smp_mb();
	err = vfs_fsync(image->sync_file, 0);
	if (!err)
		WRITE_ONCE(image->ahead.durable, undurable);
	return err;
}

/**
 * floop_image_read_direct() - read a little of an image past the page cache
 * @image: the image
 * @pos: the position in the file, in bytes
 * @buf: the destination, or NULL to see only whether the read succeeds
 * @size: the size, in bytes
 * @align: the alignment of position and length, in bytes, a power of two;
 *	memory is aligned to it, too, or to more if the rules demand it
 *
 * Context: Process context. Sleeps.
 * Return: bytes read, or an errno.
 */
ssize_t floop_image_read_direct(struct floop_image *image, loff_t pos,
				void *buf, size_t size, unsigned int align)
{
	size_t memory = max(align, image->rules.mem_mask + 1);
	struct file *file = image->file;
	size_t skip = pos & (align - 1);
	size_t bytes = round_up(skip + size, align);
	unsigned int order = get_order(max(bytes, memory));
	struct iov_iter iter;
	struct bio_vec bvec;
	struct kiocb iocb;
	ssize_t ret;
	struct page *page;
	void *bounce;

	/* Whole pages: network file systems take references. */
	page = alloc_pages(GFP_NOIO | __GFP_COMP, order);
	if (!page)
		return -ENOMEM;
	bounce = page_address(page);
	init_sync_kiocb(&iocb, file);
	iocb.ki_pos = pos - skip;
	bvec_set_virt(&bvec, bounce, bytes);
	iov_iter_bvec(&iter, ITER_DEST, &bvec, 1, bytes);
	ret = floop_direct_io(&iocb, &iter);
	if (ret >= 0) {
		ret = clamp_t(ssize_t, ret - (ssize_t)skip, 0, size);
		if (buf)
			memcpy(buf, bounce + skip, ret);
	}
	__free_pages(page, order);
	return ret;
}

/**
 * floop_image_read() - read a little of an image, as its I/O would
 * @image: the image
 * @pos: the position in the file, in bytes
 * @buf: the destination
 * @size: the size, in bytes
 *
 * Doesn't use the page cache if I/O can be direct: the pages would stay there
 * while mapped writes bypass them.
 *
 * Context: Process context. Sleeps.
 * Return: bytes read, or an errno.
 */
ssize_t floop_image_read(struct floop_image *image, loff_t pos, void *buf,
			 size_t size)
{
	const struct floop_direct_rules *rules = &image->rules;

	if (!(image->file->f_mode & FMODE_READ))
		return -EBADF;
	if (!rules->odirect || !rules->file_can || rules->refused)
		return kernel_read(image->file, buf, size, &pos);
	if (!is_power_of_2(rules->align))
		return -EINVAL;
	return floop_image_read_direct(image, pos, buf, size, rules->align);
}

/*
 * Open our own descriptors if the guard can use them; else keep the one from
 * userspace.
 */
static void open_files(struct floop_image *image, struct file *file,
		       bool read_only)
{
	struct file *own = floop_lease_open(file, read_only), *sync;

	if (IS_ERR(own))
		goto shared;
	sync = read_only ? get_file(own) : floop_lease_open_sync(own);
	if (IS_ERR(sync))
		goto put_own;
	image->own_file = true;
	image->file = own;
	image->sync_file = sync;
	return;

put_own:
	fput(own);
shared:
	image->file = get_file(file);
}

static void put_files(struct floop_image *image)
{
	if (image->sync_file)
		fput(image->sync_file);
	fput(image->file);
}

/**
 * floop_image_open() - prepare to serve I/O to a file
 * @dev: its device
 * @file: the file; the image gets a descriptor or a reference of its own
 * @offset: where the device begins in the file, in bytes
 * @read_only: whether writes are to fail
 *
 * Direct I/O is off until floop_direct_decide() turns it on.
 *
 * Context: Process context. May sleep.
 * Return: the image, or ERR_PTR(-ENOMEM).
 */
struct floop_image *floop_image_open(struct floop_device *dev,
				     struct file *file, loff_t offset,
				     bool read_only)
{
	struct floop_image *image;
	int err = -ENOMEM;

	image = kzalloc(sizeof(*image), GFP_KERNEL);
	if (!image)
		return ERR_PTR(-ENOMEM);
	image->dev = dev;
	image->lanes = dev->lanes;
	open_files(image, file, read_only);
	file = image->file;
	image->offset = offset;
	image->read_only = read_only;
	image->is_bdev = S_ISBLK(file_inode(file)->i_mode);
	image->nowait = (file->f_mode & FMODE_NOWAIT) && !image->is_bdev;
	image->dsync = floop_fs_has_dsync(file);
	image->flushes = image->is_bdev || floop_fs_flushes_data(file);
	INIT_WORK(&image->unsupported_work, floop_discard_unsupported);
	spin_lock_init(&image->refused_lock);
	bio_list_init(&image->refused);
	INIT_WORK(&image->refused_work, floop_direct_give_up);
	floop_direct_learn(file, &image->rules);
	floop_direct_probe(image);
	floop_spare_init(&image->spare);
	err = floop_ahead_init_image(image);
	if (err)
		goto err_put;
	floop_ahead_set(image, dev->allocate);
	err = floop_bounce_init_image(image);
	if (err)
		goto err_put;
	err = -ENOMEM;
	image->counts = alloc_percpu(struct floop_counts);
	if (!image->counts)
		goto err_bounce;
	err = mempool_init_slab_pool(&image->ios,
				     min(floop_queue_depth, RESERVE), io_cache);
	if (err)
		goto err_counts;
	err = floop_remap_init_image(image);
	if (err)
		goto err_ios;
	err = floop_guard_init_image(image);
	if (err)
		goto err_remap;
	err = floop_shared_init_image(image);
	if (err)
		goto err_guard;
	floop_holes_init_image(image);
	floop_calls_init_image(image);
	floop_times_init_image(image);
	floop_cache_restrict(image);
	return image;

err_guard:
	floop_guard_exit_image(image);
err_remap:
	floop_remap_exit_image(image);
err_ios:
	mempool_exit(&image->ios);
err_counts:
	free_percpu(image->counts);
err_bounce:
	floop_bounce_exit_image(image);
err_put:
	floop_ahead_exit_image(image);
	floop_spare_exit(&image->spare);
	put_files(image);
	kfree(image);
	return ERR_PTR(err);
}

/**
 * floop_image_close() - stop all that serves an image, and release it
 * @image: the image; no I/O is in flight, and none comes
 *
 * A worker may still be about to leave a lane, but doesn't access the image
 * after the end of its last I/O. Mapped I/O holds the guard, not the queue, so
 * wait for it here.
 *
 * Context: Process context. May sleep. The last close of a device calls it
 * with the disk's open_mutex held.
 */
void floop_image_close(struct floop_image *image)
{
	flush_work(&image->refused_work);
	cancel_work_sync(&image->unsupported_work);
	floop_ahead_exit_image(image);
	floop_guard_exit_image(image);
	if (image->fill.asked)
		floop_helper_settle();
	floop_shared_exit_image(image);
	floop_times_exit_image(image);
	floop_remap_exit_image(image);
	mempool_exit(&image->ios);
	free_percpu(image->counts);
	floop_cache_unrestrict(image);
	put_files(image);
	floop_bounce_exit_image(image);
	floop_spare_exit(&image->spare);
	kfree(image);
}
