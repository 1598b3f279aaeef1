// SPDX-License-Identifier: GPL-2.0
/*
 * The devices: their registry, and the disk of each, as it is added, opened,
 * closed and removed.
 */
#include <linux/blkdev.h>
#include <linux/major.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/xarray.h>

#include "attach.h"
#include "device.h"
#include "io.h"
#include "lane.h"
#include "names.h"

static int floop_major;
static int part_shift;		/* log2 of the minors of a device */

static DEFINE_XARRAY_ALLOC(devices);
static DEFINE_MUTEX(devices_lock);	/* devices, and floop_device::listed */

/*
 * Register a device that is being added, as @number or, if that is negative,
 * under the first number that is free. Returns 0, -EEXIST, -EINTR or -ENOMEM.
 */
static int registry_insert(struct floop_device *dev, int number)
{
	u32 index = number;
	int err;

	err = mutex_lock_killable(&devices_lock);
	if (err)
		return err;
	if (number >= 0) {
		err = xa_insert(&devices, index, dev, GFP_KERNEL);
		if (err == -EBUSY)
			err = -EEXIST;
	} else {
		err = xa_alloc(&devices, &index, dev, XA_LIMIT(0, INT_MAX),
			       GFP_KERNEL);
	}
	if (!err)
		dev->number = index;
	mutex_unlock(&devices_lock);
	return err;
}

/* Let the control node find a device whose disk has been added. */
static void registry_list(struct floop_device *dev)
{
	mutex_lock(&devices_lock);
	dev->listed = true;
	mutex_unlock(&devices_lock);
}

/*
 * Find a device to remove. While it isn't listed, nobody else removes the same
 * device. Returns ERR_PTR(-ENODEV) without one, or ERR_PTR(-EINTR).
 */
static struct floop_device *registry_unlist(int number)
{
	struct floop_device *dev;
	int err;

	err = mutex_lock_killable(&devices_lock);
	if (err)
		return ERR_PTR(err);
	dev = xa_load(&devices, number);
	if (dev && dev->listed)
		dev->listed = false;
	else
		dev = ERR_PTR(-ENODEV);
	mutex_unlock(&devices_lock);
	return dev;
}

/* Free the number of a device whose disk is gone, or was never there. */
static void registry_remove(struct floop_device *dev)
{
	mutex_lock(&devices_lock);
	xa_erase(&devices, dev->number);
	mutex_unlock(&devices_lock);
}

/*
 * Open and close run under the disk's open_mutex, and so does the step to
 * FLOOP_DELETING. Neither may wait for configuration: a partition scan opens
 * the device from inside LOOP_CONFIGURE.
 */
static int floop_open(struct gendisk *disk, blk_mode_t mode)
{
	struct floop_device *dev = disk->private_data;
	enum floop_state state = READ_ONCE(dev->state);

	if (state == FLOOP_RUNDOWN || state == FLOOP_DELETING)
		return -ENXIO;
	return 0;
}

static void floop_release(struct gendisk *disk)
{
	struct floop_device *dev = disk->private_data;

	if (disk_openers(disk))
		return;
	/*
	 * Nobody else can reach the device now: an ioctl needs an open file,
	 * an open waits for open_mutex, and so does LOOP_CTL_REMOVE.
	 */
	if (dev->state == FLOOP_BOUND && (dev->flags & LO_FLAGS_AUTOCLEAR))
		WRITE_ONCE(dev->state, FLOOP_RUNDOWN);
	if (dev->state == FLOOP_RUNDOWN)
		floop_detach(dev);
}

static void floop_free_disk(struct gendisk *disk)
{
	struct floop_device *dev = disk->private_data;

	if (dev->lanes)
		floop_lanes_free(dev->lanes);
	mutex_destroy(&dev->lock);
	kfree(dev);
}

static const struct block_device_operations floop_fops = {
	.owner		= THIS_MODULE,
	.submit_bio	= floop_submit_bio,
	.open		= floop_open,
	.release	= floop_release,
	.ioctl		= floop_ioctl,
#ifdef CONFIG_COMPAT
	.compat_ioctl	= floop_compat_ioctl,
#endif
	.free_disk	= floop_free_disk,
};

/**
 * floop_device_of() - the floop device behind a block device
 * @bdev: any block device, a partition of ours included
 *
 * Context: Any.
 * Return: the device, or NULL where @bdev belongs to another driver.
 */
struct floop_device *floop_device_of(struct block_device *bdev)
{
	if (bdev->bd_disk->fops != &floop_fops)
		return NULL;
	return bdev->bd_disk->private_data;
}

/**
 * floop_device_add() - add a device
 * @number: its number, or a negative one for the first that is free
 *
 * Context: Process context. May sleep; takes the registry's lock.
 * Return: the device's number, or -EEXIST where @number is taken, -EINTR, or
 * another errno.
 */
int floop_device_add(int number)
{
	struct queue_limits lim = {
		.features	= BLK_FEAT_NOWAIT | BLK_FEAT_IO_STAT,
		/* as the in-tree driver: 1280 KiB; larger bios work, too */
		.max_hw_sectors	= 2560,
	};
	struct floop_device *dev;
	struct gendisk *disk;
	int err;

	dev = kzalloc(sizeof(*dev), GFP_KERNEL);
	if (!dev)
		return -ENOMEM;
	mutex_init(&dev->lock);
	spin_lock_init(&dev->image_lock);

	err = registry_insert(dev, number);
	if (err)
		goto err_free;

	disk = blk_alloc_disk(&lim, NUMA_NO_NODE);
	if (IS_ERR(disk)) {
		err = PTR_ERR(disk);
		goto err_unreserve;
	}
	dev->disk = disk;
	number = dev->number;

	/*
	 * Without max_part no partition is looked for unless LO_FLAGS_PARTSCAN
	 * asks for it; partitions then take extended minors.
	 */
	if (!part_shift)
		set_bit(GD_SUPPRESS_PART_SCAN, &disk->state);
	disk->major = floop_major;
	disk->first_minor = number << part_shift;
	disk->minors = 1 << part_shift;
	disk->fops = &floop_fops;
	disk->private_data = dev;
	disk->events = DISK_EVENT_MEDIA_CHANGE;
	disk->event_flags = DISK_EVENT_FLAG_UEVENT;
	snprintf(disk->disk_name, DISK_NAME_LEN, "%s%d", floop_names(), number);

	err = add_disk(disk);
	if (err)
		goto err_put;	/* floop_free_disk() is for added disks */
	registry_list(dev);
	return number;

err_put:
	put_disk(disk);
err_unreserve:
	registry_remove(dev);
err_free:
	mutex_destroy(&dev->lock);
	kfree(dev);
	return err;
}

/*
 * Claim a device for removal: true if it has neither image nor opener. Takes
 * the disk's open_mutex, as every open does, so that nobody opens it
 * afterwards.
 */
static bool device_retire(struct floop_device *dev)
{
	bool idle;

	mutex_lock(&dev->disk->open_mutex);
	idle = dev->state == FLOOP_UNBOUND && !disk_openers(dev->disk);
	if (idle)
		WRITE_ONCE(dev->state, FLOOP_DELETING);
	mutex_unlock(&dev->disk->open_mutex);
	return idle;
}

static void device_delete(struct floop_device *dev)
{
	del_gendisk(dev->disk);
	registry_remove(dev);
	put_disk(dev->disk);
}

/**
 * floop_device_remove() - remove a device
 * @number: its number
 *
 * Context: Process context. May sleep; takes the registry's lock, and then the
 * disk's open_mutex.
 * Return: 0; -ENODEV where there is none, -EBUSY where it is open or attached,
 * -EINTR.
 */
int floop_device_remove(int number)
{
	struct floop_device *dev = registry_unlist(number);

	if (IS_ERR(dev))
		return PTR_ERR(dev);
	if (!device_retire(dev)) {
		registry_list(dev);
		return -EBUSY;
	}
	device_delete(dev);
	return 0;
}

/**
 * floop_device_get_free() - find a device without an image, or add one
 *
 * Doesn't reserve it: the first task to attach it gets it, others get -EBUSY. A
 * device that is being attached isn't free: its file's owner may keep whoever
 * attaches it waiting, and would keep all that ask for a free device waiting.
 *
 * Context: Process context. May sleep; takes the registry's lock.
 * Return: its number; -EINTR, or what floop_device_add() returns.
 */
int floop_device_get_free(void)
{
	struct floop_device *dev;
	unsigned long number;
	int err;

	err = mutex_lock_killable(&devices_lock);
	if (err)
		return err;
	xa_for_each(&devices, number, dev) {
		if (dev->listed && READ_ONCE(dev->state) == FLOOP_UNBOUND &&
		    !READ_ONCE(dev->attaching)) {
			mutex_unlock(&devices_lock);
			return number;
		}
	}
	mutex_unlock(&devices_lock);
	return floop_device_add(-1);
}

/**
 * floop_device_remove_all() - remove every device, at module unload
 *
 * Context: Module exit. Nobody can open or attach a device any more.
 */
void floop_device_remove_all(void)
{
	struct floop_device *dev;
	unsigned long number;

	xa_for_each(&devices, number, dev)
		device_delete(dev);
	xa_destroy(&devices);
}

/**
 * floop_device_set_partitions() - how many minors a device takes
 * @max_part: the module parameter; rounded up to the number in use
 *
 * Context: Module init.
 * Return: 0, or -EINVAL where the block layer has no room for so many.
 */
int floop_device_set_partitions(int *max_part)
{
	if (*max_part > 0) {
		part_shift = fls(*max_part);
		*max_part = (1U << part_shift) - 1;
	}
	if ((1UL << part_shift) > DISK_MAX_PARTS)
		return -EINVAL;
	return 0;
}

/**
 * floop_device_scans_always() - are partitions looked for on every device?
 *
 * Context: Any.
 * Return: true with the module parameter max_part.
 */
bool floop_device_scans_always(void)
{
	return part_shift;
}

/**
 * floop_device_limit() - the most devices that there can be
 *
 * Context: Any.
 * Return: a number of devices.
 */
int floop_device_limit(void)
{
	return 1 << (MINORBITS - part_shift);
}

/**
 * floop_device_index() - the index of the device that a dev_t belongs to
 * @devt: a device number of our major
 *
 * Context: Any.
 * Return: N of /dev/floopN.
 */
int floop_device_index(dev_t devt)
{
	return MINOR(devt) >> part_shift;
}

/**
 * floop_device_register_major() - register the block major
 * @probe: called for the open of a node that has no disk yet, or NULL
 *
 * Context: Module init. May sleep.
 * Return: 0 or an errno.
 */
int floop_device_register_major(void (*probe)(dev_t devt))
{
	/* Major 0: the kernel picks one, and returns it. */
	unsigned int major = floop_drop_in ? LOOP_MAJOR : 0;
	int ret = __register_blkdev(major, floop_names(), probe);

	if (ret < 0)
		return ret;
	floop_major = major ?: ret;
	return 0;
}

/**
 * floop_device_unregister_major() - undo floop_device_register_major()
 *
 * Context: Module exit. May sleep.
 */
void floop_device_unregister_major(void)
{
	unregister_blkdev(floop_major, floop_names());
}
