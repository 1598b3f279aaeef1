// SPDX-License-Identifier: GPL-2.0
/*
 * /sys/block/NAME/loop/: what losetup and lsblk read, as the in-tree driver
 * shows it, and what only floop knows: which driver it is, and why I/O is not
 * direct. None of it waits for configuration.
 */
#include <linux/blkdev.h>
#include <linux/fs.h>
#include <linux/sysfs.h>

#include "device.h"
#include "image.h"
#include "names.h"
#include "sysfs.h"

static struct floop_device *to_floop(struct device *ddev)
{
	return dev_to_disk(ddev)->private_data;
}

static ssize_t backing_file_show(struct device *ddev,
				 struct device_attribute *attr, char *buf)
{
	struct floop_device *dev = to_floop(ddev);
	char *path = NULL;
	ssize_t len;

	spin_lock(&dev->image_lock);
	if (dev->image)
		path = file_path(dev->image->file, buf, PAGE_SIZE - 1);
	spin_unlock(&dev->image_lock);

	if (IS_ERR_OR_NULL(path))
		return PTR_ERR(path);
	len = strlen(path);
	memmove(buf, path, len);
	buf[len++] = '\n';
	return len;
}

static ssize_t dio_reason_show(struct device *ddev,
			       struct device_attribute *attr, char *buf)
{
	struct floop_device *dev = to_floop(ddev);
	enum floop_direct verdict;
	ssize_t len = 0;

	spin_lock(&dev->image_lock);
	if (dev->image) {
		verdict = floop_direct_check(dev->image,
					     queue_logical_block_size(dev->disk->queue));
		if (!dev->want_direct)
			verdict = FLOOP_DIRECT_OFF;
		len = floop_direct_say(dev->image, verdict, buf, PAGE_SIZE - 1);
		buf[len++] = '\n';
	}
	spin_unlock(&dev->image_lock);
	return len;
}

static ssize_t offset_show(struct device *ddev, struct device_attribute *attr,
			   char *buf)
{
	struct floop_device *dev = to_floop(ddev);
	loff_t offset = 0;

	spin_lock(&dev->image_lock);
	if (dev->image)
		offset = dev->image->offset;
	spin_unlock(&dev->image_lock);
	return sysfs_emit(buf, "%lld\n", offset);
}

static ssize_t sizelimit_show(struct device *ddev,
			      struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%lld\n", to_floop(ddev)->size_limit);
}

static ssize_t flag_show(struct device *ddev, u32 flag, char *buf)
{
	return sysfs_emit(buf, "%d\n",
			  !!(READ_ONCE(to_floop(ddev)->flags) & flag));
}

static ssize_t autoclear_show(struct device *ddev,
			      struct device_attribute *attr, char *buf)
{
	return flag_show(ddev, LO_FLAGS_AUTOCLEAR, buf);
}

static ssize_t partscan_show(struct device *ddev,
			     struct device_attribute *attr, char *buf)
{
	return flag_show(ddev, LO_FLAGS_PARTSCAN, buf);
}

static ssize_t dio_show(struct device *ddev, struct device_attribute *attr,
			char *buf)
{
	return flag_show(ddev, LO_FLAGS_DIRECT_IO, buf);
}

static ssize_t driver_show(struct device *ddev, struct device_attribute *attr,
			   char *buf)
{
	return sysfs_emit(buf, "floop\n");
}

static DEVICE_ATTR_RO(backing_file);
static DEVICE_ATTR_RO(offset);
static DEVICE_ATTR_RO(sizelimit);
static DEVICE_ATTR_RO(autoclear);
static DEVICE_ATTR_RO(partscan);
static DEVICE_ATTR_RO(dio);
static DEVICE_ATTR_RO(dio_reason);
static DEVICE_ATTR_RO(driver);

static struct attribute *floop_attrs[] = {
	&dev_attr_backing_file.attr,
	&dev_attr_offset.attr,
	&dev_attr_sizelimit.attr,
	&dev_attr_autoclear.attr,
	&dev_attr_partscan.attr,
	&dev_attr_dio.attr,
	&dev_attr_dio_reason.attr,
	&dev_attr_driver.attr,
	NULL,
};

/* The group's name is what losetup looks for, in either mode. */
static const struct attribute_group floop_group = {
	.name	= "loop",
	.attrs	= floop_attrs,
};

/**
 * floop_sysfs_add() - show an attached device's loop/ group
 * @dev: the device
 *
 * Without the group the device works all the same, so failing is no error.
 */
void floop_sysfs_add(struct floop_device *dev)
{
	dev->has_sysfs = !sysfs_create_group(&disk_to_dev(dev->disk)->kobj,
					     &floop_group);
}

/**
 * floop_sysfs_remove() - take the loop/ group away
 * @dev: the device
 *
 * Context: Process context. Waits for readers, who take only the image_lock.
 */
void floop_sysfs_remove(struct floop_device *dev)
{
	if (dev->has_sysfs)
		sysfs_remove_group(&disk_to_dev(dev->disk)->kobj, &floop_group);
	dev->has_sysfs = false;
}
