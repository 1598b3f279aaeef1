// SPDX-License-Identifier: GPL-2.0
/*
 * Get and change the settings of an attached device: LOOP_GET_STATUS,
 * LOOP_SET_STATUS, LOOP_SET_CAPACITY, LOOP_SET_DIRECT_IO, LOOP_SET_BLOCK_SIZE,
 * mapping, and what becomes of discards.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/blk-mq.h>
#include <linux/blkdev.h>
#include <linux/fs.h>
#include <linux/kdev_t.h>
#include <linux/path.h>
#include <linux/stat.h>

#include "compat.h"
#include "device.h"
#include "image.h"
#include "limits.h"
#include "rules.h"
#include "settings.h"

#define STATUS_SETTABLE_FLAGS	(LO_FLAGS_AUTOCLEAR | LO_FLAGS_PARTSCAN)
#define STATUS_CLEARABLE_FLAGS	LO_FLAGS_AUTOCLEAR

/**
 * floop_settings_check() - check settings from userspace
 * @info: the settings that userspace asks for
 *
 * Context: Any.
 * Return: 0; -EINVAL for encryption, which has been gone from loop devices
 * since 5.16; -EOVERFLOW for an offset or limit that no file has.
 */
int floop_settings_check(const struct loop_info64 *info)
{
	if (info->lo_encrypt_key_size > LO_KEY_SIZE)
		return -EINVAL;
	if (info->lo_encrypt_type != LO_CRYPT_NONE) {
		pr_warn_once("encryption by the loop device is gone, use dm-crypt\n");
		return -EINVAL;
	}
	if (info->lo_offset > LLONG_MAX || info->lo_sizelimit > LLONG_MAX)
		return -EOVERFLOW;
	return 0;
}

/**
 * floop_settings_set_name() - keep the name that userspace gave
 * @dev: the device
 * @info: with the name
 *
 * Keeps the bytes behind the end of the string, too: LOOP_GET_STATUS returns
 * them.
 *
 * Context: Process context, with the device's lock held.
 */
void floop_settings_set_name(struct floop_device *dev,
			     const struct loop_info64 *info)
{
	memcpy(dev->name, info->lo_file_name, LO_NAME_SIZE);
	dev->name[LO_NAME_SIZE - 1] = '\0';
}

/**
 * floop_settings_set_size() - set the size of the disk, with a uevent
 * @dev: the device
 * @size: in sectors of 512 bytes
 *
 * Context: Process context, with the device's lock held. May sleep.
 */
void floop_settings_set_size(struct floop_device *dev, sector_t size)
{
	if (!set_capacity_and_notify(dev->disk, size))
		kobject_uevent(&disk_to_dev(dev->disk)->kobj, KOBJ_CHANGE);
}

/**
 * floop_settings_scan() - look for partitions
 * @dev: the device
 *
 * Context: Process context. May sleep; takes the disk's open_mutex, so the
 * caller may not hold the device's lock.
 */
void floop_settings_scan(struct floop_device *dev)
{
	char name[LO_NAME_SIZE];
	int err;

	mutex_lock(&dev->disk->open_mutex);
	err = bdev_disk_changed(dev->disk, false);
	mutex_unlock(&dev->disk->open_mutex);
	if (!err)
		return;
	mutex_lock(&dev->lock);
	strscpy(name, dev->name, sizeof(name));
	mutex_unlock(&dev->lock);
	/* In the in-tree driver's words, its function's name included. */
	pr_warn("loop_reread_partitions: partition scan of %s (%s) failed (rc=%d)\n",
		dev->disk->disk_name, name, err);
}

/* Restart the guard: the fill's bitmap has the file's old size. */
static void remap_whole(struct floop_device *dev)
{
	struct floop_image *image = dev->image;

	floop_guard_stop(image);
	floop_window(FLOOP_WINDOW_REMAP);
	floop_guard_start(image, dev->want_mapping);
}

/*
 * Change the offset in the image and, unless it is 0, the logical block size,
 * both in bytes. Direct I/O and its limits are decided anew. The guard is
 * stopped meanwhile: mapped I/O is direct, and freezing the queue doesn't wait
 * for it. Returns 0, or -EINVAL for an impossible block size.
 */
static int change_limits(struct floop_device *dev, unsigned int block_size,
			 loff_t offset, bool asked)
{
	struct request_queue *q = dev->disk->queue;
	struct floop_image *image = dev->image;
	struct queue_limits lim;
	unsigned int memflags;
	int err;

	floop_guard_stop(image);
	lim = queue_limits_start_update(q);
	if (block_size)
		floop_limits_set(image, &lim, block_size);
	memflags = floop_direct_freeze(image);
	image->offset = offset;
	floop_direct_decide(dev, image, lim.logical_block_size, asked);
	floop_limits_direct(image, &lim);
	err = queue_limits_commit_update(q, &lim);
	if (err)
		floop_direct_decide(dev, image, queue_logical_block_size(q),
				    false);
	floop_unfreeze_queue(q, memflags);
	floop_guard_start(image, dev->want_mapping);
	return err;
}

static sector_t shown_sectors(struct floop_device *dev)
{
	struct floop_image *image = dev->image;

	return floop_image_sectors(image->file, image->offset, dev->size_limit);
}

/*
 * A block size that the driver chose may be too large for the part of the image
 * that is shown now: before there was LOOP_CONFIGURE, losetup called
 * LOOP_SET_FD, and then LOOP_SET_STATUS with the offset of a file system. The
 * block size never grows: openers of the device rely on it.
 */
static void shrink_blocks(struct floop_device *dev, sector_t size)
{
	unsigned int block_size;

	if (dev->user_block_size)
		return;
	block_size = floop_limits_block_size(dev, dev->image, size,
					     dev->asked_direct);
	if (block_size < bdev_logical_block_size(dev->disk->part0))
		change_limits(dev, block_size, dev->image->offset, false);
}

/**
 * floop_settings_set() - change offset, size limit, name and flags
 * @dev: the device
 * @info: offset, size limit, name, and the flags that may change: autoclear,
 *	and partition scan, which can't be turned off
 *
 * Context: Process context. May sleep; takes the device's lock and freezes the
 * queue, then takes the disk's open_mutex if partition scan is turned on.
 * Return: 0; -ENXIO, -EINVAL, -EOVERFLOW, -EINTR.
 */
int floop_settings_set(struct floop_device *dev,
		       const struct loop_info64 *info)
{
	bool moved, resized, scan = false;
	int err;

	err = mutex_lock_killable(&dev->lock);
	if (err)
		return err;
	err = -ENXIO;
	if (dev->state != FLOOP_BOUND)
		goto unlock;

	moved = dev->image->offset != info->lo_offset;
	resized = moved || dev->size_limit != info->lo_sizelimit;
	if (resized) {
		sync_blockdev(dev->disk->part0);
		invalidate_bdev(dev->disk->part0);
	}
	err = floop_settings_check(info);
	if (err)
		goto unlock;

	dev->size_limit = info->lo_sizelimit;
	floop_settings_set_name(dev, info);
	scan = !(dev->flags & LO_FLAGS_PARTSCAN) &&
	       (info->lo_flags & LO_FLAGS_PARTSCAN);
	dev->flags &= ~STATUS_CLEARABLE_FLAGS;
	dev->flags |= info->lo_flags & STATUS_SETTABLE_FLAGS;
	if (scan)
		clear_bit(GD_SUPPRESS_PART_SCAN, &dev->disk->state);
	if (moved)
		change_limits(dev, 0, info->lo_offset, false);
	if (resized) {
		sector_t size = shown_sectors(dev);

		shrink_blocks(dev, size);
		/*
		 * Once more: what has been read since would stay. Before the
		 * uevent: whoever looks then sees the new place. A page that
		 * somebody has a reference to stays all the same, as with the
		 * in-tree driver.
		 */
		invalidate_bdev(dev->disk->part0);
		floop_settings_set_size(dev, size);
	}
unlock:
	mutex_unlock(&dev->lock);
	if (scan)
		floop_settings_scan(dev);
	return err;
}

/**
 * floop_settings_get() - get the device's settings
 * @dev: the device
 * @info: filled in
 *
 * Context: Process context. May sleep; takes the device's lock, but not while
 * it asks the image's file system.
 * Return: 0; -ENXIO, -EINTR, or the file system's error.
 */
int floop_settings_get(struct floop_device *dev, struct loop_info64 *info)
{
	struct kstat stat;
	struct path path;
	int err;

	err = mutex_lock_killable(&dev->lock);
	if (err)
		return err;
	if (dev->state != FLOOP_BOUND) {
		mutex_unlock(&dev->lock);
		return -ENXIO;
	}
	memset(info, 0, sizeof(*info));
	info->lo_number = dev->number;
	info->lo_offset = dev->image->offset;
	info->lo_sizelimit = dev->size_limit;
	info->lo_flags = dev->flags;
	if (dev->image->direct)
		info->lo_flags |= LO_FLAGS_DIRECT_IO;
	memcpy(info->lo_file_name, dev->name, LO_NAME_SIZE);
	path = dev->image->file->f_path;
	path_get(&path);
	mutex_unlock(&dev->lock);

	err = vfs_getattr(&path, &stat, STATX_INO, AT_STATX_SYNC_AS_STAT);
	if (!err) {
		info->lo_device = huge_encode_dev(stat.dev);
		info->lo_inode = stat.ino;
		info->lo_rdevice = huge_encode_dev(stat.rdev);
	}
	path_put(&path);
	return err;
}

/**
 * floop_settings_set_capacity() - resize the device as the image
 * @dev: the device
 *
 * Context: Process context, with the device's lock held.
 * Return: 0 or -ENXIO.
 */
int floop_settings_set_capacity(struct floop_device *dev)
{
	if (dev->state != FLOOP_BOUND)
		return -ENXIO;
	floop_settings_set_size(dev, shown_sectors(dev));
	floop_window(FLOOP_WINDOW_GROW);
	remap_whole(dev);
	return 0;
}

/**
 * floop_settings_set_mapping() - turn mapping on or off
 * @dev: the device
 * @mapping: true: on
 *
 * Context: Process context, with the device's lock held. Sleeps until the last
 * mapped I/O has ended.
 * Return: 0; -ENXIO where the image is gone.
 */
int floop_settings_set_mapping(struct floop_device *dev, bool mapping)
{
	if (!dev->image)
		return -ENXIO;
	dev->want_mapping = mapping;
	remap_whole(dev);
	return 0;
}

/**
 * floop_settings_set_keep() - keep the image's blocks, or free discarded ones
 * @dev: the device
 * @keep: true: keep them
 *
 * Context: Process context, with the device's lock held. Freezes the queue:
 * discards that came before are done afterwards.
 * Return: 0; -ENXIO where the image is gone.
 */
int floop_settings_set_keep(struct floop_device *dev, bool keep)
{
	if (!dev->image)
		return -ENXIO;
	WRITE_ONCE(dev->keep_blocks, keep);
	return floop_limits_discard(dev);
}

/**
 * floop_settings_set_allocate() - change how much is allocated ahead
 * @dev: the device
 * @allocate: FLOOP_ALLOCATE_* or the unit, in bytes
 *
 * Context: Process context, with the device's lock held. Freezes the queue.
 * Return: 0; -ENXIO where the image is gone.
 */
int floop_settings_set_allocate(struct floop_device *dev,
				unsigned int allocate)
{
	unsigned int memflags;

	if (!dev->image)
		return -ENXIO;
	memflags = floop_direct_freeze(dev->image);
	floop_ahead_set(dev->image, allocate);
	floop_unfreeze_queue(dev->disk->queue, memflags);
	WRITE_ONCE(dev->allocate, allocate);
	return 0;
}

/**
 * floop_settings_set_direct() - turn direct I/O on or off
 * @dev: the device
 * @direct: true: on
 *
 * Context: Process context, with the device's lock held. May sleep; freezes the
 * queue.
 * Return: 0; -ENXIO; -EINVAL where the image doesn't allow direct I/O.
 */
int floop_settings_set_direct(struct floop_device *dev, bool direct)
{
	struct floop_image *image = dev->image;
	bool wanted = dev->want_direct;
	int err;

	if (dev->state != FLOOP_BOUND)
		return -ENXIO;
	dev->want_direct = direct;
	if (direct == image->direct) {
		dev->asked_direct = direct;
		dev->direct_off = !direct;
		return 0;
	}
	if (direct && image->rules.refused) {
		/* The file system may take it by now. */
		image->rules.refused = false;
		floop_direct_probe(image);
	}
	/* Write dirty pages before direct I/O goes past them. */
	if (direct)
		floop_cache_write_back(image);
	err = change_limits(dev, 0, image->offset, direct);
	if (!err && direct != image->direct)
		err = -EINVAL;
	if (err) {
		dev->want_direct = wanted;
		return err;
	}
	dev->asked_direct = direct;
	dev->direct_off = !direct;
	return 0;
}

/**
 * floop_settings_set_block_size() - change the logical block size
 * @dev: the device
 * @mode: how the caller opened it
 * @bdev: the block device that the caller opened
 * @size: in bytes, or 0 to let the driver choose
 *
 * Context: Process context. May sleep; takes the device's lock and freezes the
 * queue.
 * Return: 0; -EBUSY where somebody else has the device open exclusively;
 * -ENXIO, -EINVAL, -EINTR.
 */
int floop_settings_set_block_size(struct floop_device *dev, blk_mode_t mode,
				  struct block_device *bdev, unsigned long size)
{
	struct block_device *whole = dev->disk->part0;
	unsigned int block_size = size, user_block_size;
	int err;

	if (!(mode & BLK_OPEN_EXCL)) {
		err = bd_prepare_to_claim(bdev, floop_settings_set_block_size,
					  NULL);
		if (err)
			return err;
	}
	err = mutex_lock_killable(&dev->lock);
	if (err)
		goto abort_claim;
	if (dev->state != FLOOP_BOUND) {
		err = -ENXIO;
		goto unlock;
	}
	user_block_size = dev->user_block_size;
	dev->user_block_size = block_size;
	if (!block_size)
		block_size = floop_limits_block_size(dev, dev->image,
						     get_capacity(dev->disk),
						     dev->asked_direct);
	if (block_size != bdev_logical_block_size(whole)) {
		sync_blockdev(whole);
		invalidate_bdev(whole);
		err = change_limits(dev, block_size, dev->image->offset,
				    false);
		if (err)
			dev->user_block_size = user_block_size;
	}
unlock:
	mutex_unlock(&dev->lock);
abort_claim:
	if (!(mode & BLK_OPEN_EXCL))
		bd_abort_claiming(bdev, floop_settings_set_block_size);
	return err;
}
