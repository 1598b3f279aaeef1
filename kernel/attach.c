// SPDX-License-Identifier: GPL-2.0
/*
 * Attach a device (LOOP_CONFIGURE, LOOP_SET_FD), replace its image
 * (LOOP_CHANGE_FD), and detach it (LOOP_CLR_FD, autoclear). The checks come in
 * the in-tree driver's order, which decides which errno a caller sees.
 */
#include <linux/blkdev.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/module.h>

#include "attach.h"
#include "compat.h"
#include "device.h"
#include "image.h"
#include "lane.h"
#include "limits.h"
#include "settings.h"

#define CONFIGURE_FLAGS	(LO_FLAGS_READ_ONLY | LO_FLAGS_AUTOCLEAR | \
			 LO_FLAGS_PARTSCAN | LO_FLAGS_DIRECT_IO)

/*
 * Held to follow images that lie on other floop devices, and to change a
 * device's image, so that no walk sees half a change. Nests inside a device's
 * lock. Nothing under it waits for a file system.
 */
static DEFINE_MUTEX(topology_lock);

static int check_cycle(struct file *file, struct floop_device *dev)
{
	int err;

	mutex_lock(&topology_lock);
	err = floop_image_check_cycle(file, dev);
	mutex_unlock(&topology_lock);
	return err;
}

/* A device that may lie on another floop device shares no workqueue with it. */
static int prepare_lanes(struct floop_image *image)
{
	return floop_image_is_on_hardware(image) ? 0 :
	       floop_lanes_alloc_wqs(image->lanes);
}

static void set_image(struct floop_device *dev, struct floop_image *image)
{
	spin_lock(&dev->image_lock);
	dev->image = image;
	spin_unlock(&dev->image_lock);
}

/*
 * Everything after the checks, up to the uevent. On failure the device stays
 * unbound.
 */
static int bind_image(struct floop_device *dev, struct file *file,
		      const struct loop_config *config, bool read_only)
{
	const struct loop_info64 *info = &config->info;
	struct gendisk *disk = dev->disk;
	unsigned int block_size = config->block_size;
	struct floop_image *image;
	sector_t size;
	bool asked;
	int err;

	if (!dev->lanes) {
		struct floop_lanes *lanes = floop_lanes_alloc(dev->number);

		if (IS_ERR(lanes))
			return PTR_ERR(lanes);
		dev->lanes = lanes;
	}
	floop_lanes_remove_cgroups(dev->lanes);
	dev->allocate = READ_ONCE(floop_allocate_default);
	image = floop_image_open(dev, file, info->lo_offset, read_only);
	if (IS_ERR(image))
		return PTR_ERR(image);
	err = prepare_lanes(image);
	if (err) {
		floop_image_close(image);
		return err;
	}
	size = floop_image_sectors(file, info->lo_offset, info->lo_sizelimit);
	asked = (info->lo_flags & LO_FLAGS_DIRECT_IO) ||
		(file->f_flags & O_DIRECT);

	dev->want_direct = asked || !READ_ONCE(floop_direct_only_asked);
	dev->direct_off = false;
	dev->asked_direct = asked;
	dev->want_mapping = floop_map_default;
	dev->keep_blocks = false;
	dev->user_block_size = block_size;
	/* The image has that flag (floop_image::direct). */
	dev->flags = info->lo_flags & ~LO_FLAGS_DIRECT_IO;
	if (read_only)
		dev->flags |= LO_FLAGS_READ_ONLY;
	if (!block_size)
		block_size = floop_limits_block_size(dev, image, size, asked);
	err = floop_limits_attach(dev, image, block_size, asked);
	if (err) {
		dev->flags = 0;
		floop_image_close(image);
		return err;
	}

	dev_set_uevent_suppress(disk_to_dev(disk), 1);
	disk_force_media_change(disk);
	set_disk_ro(disk, read_only);
	dev->size_limit = info->lo_sizelimit;
	floop_settings_set_name(dev, info);
	floop_cache_prepare(image);
	set_image(dev, image);
	floop_sysfs_add(dev);
	floop_settings_set_size(dev, size);

	if (floop_device_scans_always())
		dev->flags |= LO_FLAGS_PARTSCAN;
	if (dev->flags & LO_FLAGS_PARTSCAN)
		clear_bit(GD_SUPPRESS_PART_SCAN, &disk->state);
	floop_guard_start(image, dev->want_mapping);
	/* Pairs with smp_rmb() in floop_image_check_cycle(). */
	smp_store_release(&dev->state, FLOOP_BOUND);

	dev_set_uevent_suppress(disk_to_dev(disk), 0);
	kobject_uevent(&disk_to_dev(disk)->kobj, KOBJ_CHANGE);
	return 0;
}

/**
 * floop_attach() - attach a device to an image
 * @dev: the device
 * @mode: how the caller opened it
 * @bdev: the block device that the caller opened
 * @config: the image's descriptor, and how to show it
 *
 * Context: Process context. May sleep; takes the device's lock, and then,
 * without it, the disk's open_mutex for a partition scan.
 * Return: 0; -EBADF, -EBUSY, -EINVAL, -EOVERFLOW, -EINTR, -ENOMEM.
 */
int floop_attach(struct floop_device *dev, blk_mode_t mode,
		 struct block_device *bdev,
		 const struct loop_config *config)
{
	bool exclusive = mode & BLK_OPEN_EXCL;
	bool scan, read_only;
	struct file *file;
	int err;

	file = fget(config->fd);
	if (!file)
		return -EBADF;
	err = floop_image_check(file);
	if (err)
		goto err_put;

	/* The device's reference; can't fail while the caller has it open. */
	__module_get(THIS_MODULE);

	/* An exclusive opener must not see the device change. */
	if (!exclusive) {
		err = bd_prepare_to_claim(bdev, floop_attach, NULL);
		if (err)
			goto err_module;
	}

	err = mutex_lock_killable(&dev->lock);
	if (err)
		goto err_claim;

	err = -EBUSY;
	if (dev->state != FLOOP_UNBOUND)
		goto err_unlock;
	err = check_cycle(file, dev);
	if (err)
		goto err_unlock;
	err = -EINVAL;
	if (config->info.lo_flags & ~CONFIGURE_FLAGS)
		goto err_unlock;
	err = floop_settings_check(&config->info);
	if (err)
		goto err_unlock;

	read_only = (config->info.lo_flags & LO_FLAGS_READ_ONLY) ||
		    !(file->f_mode & FMODE_WRITE) || !(mode & BLK_OPEN_WRITE) ||
		    !file->f_op->write_iter;
	/* This may read the file, and wait for whoever has its inode's lock. */
	WRITE_ONCE(dev->attaching, true);
	err = bind_image(dev, file, config, read_only);
	WRITE_ONCE(dev->attaching, false);
	if (err)
		goto err_unlock;
	scan = dev->flags & LO_FLAGS_PARTSCAN;
	mutex_unlock(&dev->lock);

	/* The image has its own. With this one open there is no lease. */
	fput(file);
	if (scan)
		floop_settings_scan(dev);
	if (!exclusive)
		bd_abort_claiming(bdev, floop_attach);
	return 0;

err_unlock:
	mutex_unlock(&dev->lock);
err_claim:
	if (!exclusive)
		bd_abort_claiming(bdev, floop_attach);
err_module:
	module_put(THIS_MODULE);
err_put:
	fput(file);
	return err;
}

/* The part of LOOP_CHANGE_FD under the lock; returns the image to close. */
static struct floop_image *exchange_image(struct floop_device *dev,
					  struct file *file)
{
	struct request_queue *q = dev->disk->queue;
	struct floop_image *old = dev->image, *new;
	struct queue_limits lim;
	unsigned int memflags;
	int err;

	if (dev->state != FLOOP_BOUND)
		return ERR_PTR(-ENXIO);
	if (!(dev->flags & LO_FLAGS_READ_ONLY))
		return ERR_PTR(-EINVAL);
	err = check_cycle(file, dev);
	if (err)
		return ERR_PTR(err);
	if (floop_image_sectors(file, old->offset, dev->size_limit) !=
	    floop_image_sectors(old->file, old->offset, dev->size_limit))
		return ERR_PTR(-EINVAL);

	new = floop_image_open(dev, file, old->offset, true);
	if (IS_ERR(new))
		return new;
	err = prepare_lanes(new);
	if (err) {
		floop_image_close(new);
		return ERR_PTR(err);
	}
	new->direct = old->direct;
	floop_cache_prepare(new);

	disk_force_media_change(dev->disk);
	lim = queue_limits_start_update(q);
	memflags = floop_direct_freeze(old);
	/* Check again: another device's image may have changed, too. */
	mutex_lock(&topology_lock);
	err = floop_image_check_cycle(file, dev);
	if (!err) {
		floop_direct_decide(dev, new, lim.logical_block_size, false);
		floop_limits_direct(new, &lim);
		set_image(dev, new);
	}
	mutex_unlock(&topology_lock);
	/* Only the limits of direct I/O have changed: they can't be refused. */
	queue_limits_commit_update(q, &lim);
	floop_unfreeze_queue(q, memflags);
	if (err) {
		floop_image_close(new);
		return ERR_PTR(err);
	}
	floop_guard_start(new, dev->want_mapping);
	return old;
}

/**
 * floop_change_fd() - replace the image by another one of the same size
 * @dev: a read-only device
 * @fd: the descriptor of the other image
 *
 * Context: Process context. May sleep; takes the device's lock, and freezes the
 * queue.
 * Return: 0; -EBADF, -ENXIO, -EINVAL, -EINTR, -ENOMEM.
 */
int floop_change_fd(struct floop_device *dev, int fd)
{
	struct device *ddev = disk_to_dev(dev->disk);
	struct floop_image *old = NULL;
	struct file *file;
	bool scan = false;
	int err;

	file = fget(fd);
	if (!file)
		return -EBADF;
	err = floop_image_check(file);
	if (err) {
		fput(file);
		return err;
	}

	dev_set_uevent_suppress(ddev, 1);
	err = mutex_lock_killable(&dev->lock);
	if (!err) {
		old = exchange_image(dev, file);
		err = PTR_ERR_OR_ZERO(old);
		scan = !err && (dev->flags & LO_FLAGS_PARTSCAN);
		mutex_unlock(&dev->lock);
	}
	dev_set_uevent_suppress(ddev, 0);

	fput(file);
	if (!err) {
		floop_image_close(old);
		if (scan)
			floop_settings_scan(dev);
	}
	kobject_uevent(&ddev->kobj, KOBJ_CHANGE);
	return err;
}

/**
 * floop_detach_later() - detach at the last close
 * @dev: the device
 *
 * The caller has the device open, so it isn't detached at once. If nobody else
 * has it open, it can't be opened any more.
 *
 * Context: Process context. Takes the device's lock.
 * Return: 0; -ENXIO, -EINTR.
 */
int floop_detach_later(struct floop_device *dev)
{
	int err = mutex_lock_killable(&dev->lock);

	if (err)
		return err;
	if (dev->state != FLOOP_BOUND) {
		err = -ENXIO;
	} else {
		dev->flags |= LO_FLAGS_AUTOCLEAR;
		if (disk_openers(dev->disk) == 1)
			WRITE_ONCE(dev->state, FLOOP_RUNDOWN);
	}
	mutex_unlock(&dev->lock);
	return err;
}

/**
 * floop_detach() - detach
 * @dev: a device in %FLOOP_RUNDOWN
 *
 * Context: The last close, with the disk's open_mutex held: there are no
 * openers and no I/O, and nobody configures the device.
 */
void floop_detach(struct floop_device *dev)
{
	struct gendisk *disk = dev->disk;
	struct floop_image *image;
	int err;

	/*
	 * This waits for a task that writes to a file of sysfs, which has the
	 * device's lock or waits for it. So take the lock only afterwards.
	 */
	floop_sysfs_remove(dev);
	mutex_lock(&dev->lock);
	image = dev->image;
	set_image(dev, NULL);
	dev->size_limit = 0;
	memset(dev->name, 0, LO_NAME_SIZE);
	mutex_unlock(&dev->lock);
	/* May still be about to change the limits. */
	cancel_work_sync(&image->unsupported_work);
	floop_limits_detach(dev);

	invalidate_disk(disk);
	kobject_uevent(&disk_to_dev(disk)->kobj, KOBJ_CHANGE);
	disk_force_media_change(disk);

	/* Partitions made by hand (BLKPG) go with those that were found. */
	err = bdev_disk_changed(disk, false);
	if (err)
		pr_warn("__loop_clr_fd: partition scan of %s failed (rc=%d)\n",
			disk->disk_name, err);

	dev->flags = 0;
	if (!floop_device_scans_always())
		set_bit(GD_SUPPRESS_PART_SCAN, &disk->state);
	floop_close(image);
	WRITE_ONCE(dev->state, FLOOP_UNBOUND);
	module_put(THIS_MODULE);
}
