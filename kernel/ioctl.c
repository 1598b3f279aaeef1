// SPDX-License-Identifier: GPL-2.0
/*
 * The device's ioctls: permissions, and the layouts of struct loop_info.
 * attach.c and settings.c do the work itself.
 */
#include <linux/blkdev.h>
#include <linux/capability.h>
#include <linux/compat.h>
#include <linux/loop.h>
#include <linux/uaccess.h>

#include "attach.h"
#include "device.h"
#include "settings.h"

/*
 * struct loop_info, the oldest layout, has narrow fields, and narrower ones yet
 * in 32-bit programs. The macros define both.
 */
#define DEFINE_SET_STATUS(layout)					\
static int set_status_##layout(struct floop_device *dev,		\
			       void __user *arg)			\
{									\
	struct loop_info64 info = { };					\
	struct layout old;						\
									\
	if (copy_from_user(&old, arg, sizeof(old)))			\
		return -EFAULT;						\
	info.lo_offset = old.lo_offset;					\
	info.lo_flags = old.lo_flags;					\
	memcpy(info.lo_file_name, old.lo_name, LO_NAME_SIZE);		\
	return floop_settings_set(dev, &info);				\
}

/* -EOVERFLOW where a field is too narrow. */
#define DEFINE_GET_STATUS(layout)					\
static int get_status_##layout(struct floop_device *dev,		\
			       void __user *arg)			\
{									\
	struct loop_info64 info;					\
	struct layout old;						\
	int err;							\
									\
	if (!arg)							\
		return -EINVAL;						\
	err = floop_settings_get(dev, &info);				\
	if (err)							\
		return err;						\
	memset(&old, 0, sizeof(old));					\
	old.lo_number = info.lo_number;					\
	old.lo_device = info.lo_device;					\
	old.lo_inode = info.lo_inode;					\
	old.lo_rdevice = info.lo_rdevice;				\
	old.lo_offset = info.lo_offset;					\
	old.lo_flags = info.lo_flags;					\
	memcpy(old.lo_name, info.lo_file_name, LO_NAME_SIZE);		\
	if (old.lo_device != info.lo_device ||				\
	    old.lo_inode != info.lo_inode ||				\
	    old.lo_rdevice != info.lo_rdevice ||			\
	    old.lo_offset != info.lo_offset)				\
		return -EOVERFLOW;					\
	return copy_to_user(arg, &old, sizeof(old)) ? -EFAULT : 0;	\
}

DEFINE_SET_STATUS(loop_info)
DEFINE_GET_STATUS(loop_info)

static int set_status64(struct floop_device *dev, void __user *arg)
{
	struct loop_info64 info;

	if (copy_from_user(&info, arg, sizeof(info)))
		return -EFAULT;
	return floop_settings_set(dev, &info);
}

static int get_status64(struct floop_device *dev, void __user *arg)
{
	struct loop_info64 info;
	int err;

	if (!arg)
		return -EINVAL;
	err = floop_settings_get(dev, &info);
	if (!err && copy_to_user(arg, &info, sizeof(info)))
		err = -EFAULT;
	return err;
}

/* The ioctls that take nothing but a number, under the device's lock. */
static int simple_ioctl(struct floop_device *dev, unsigned int cmd,
			unsigned long arg)
{
	int err = mutex_lock_killable(&dev->lock);

	if (err)
		return err;
	switch (cmd) {
	case LOOP_SET_CAPACITY:
		err = floop_settings_set_capacity(dev);
		break;
	case LOOP_SET_DIRECT_IO:
		err = floop_settings_set_direct(dev, arg);
		break;
	default:
		err = -EINVAL;
	}
	mutex_unlock(&dev->lock);
	return err;
}

static bool may_change(blk_mode_t mode)
{
	return (mode & BLK_OPEN_WRITE) || capable(CAP_SYS_ADMIN);
}

/**
 * floop_ioctl() - an ioctl of the device
 * @bdev: the block device that is open, maybe a partition
 * @mode: how it was opened
 * @cmd: LOOP_*
 * @arg: its argument
 *
 * Context: Process context, with no lock held.
 * Return: 0 or an errno; -EINVAL for an ioctl that isn't known.
 */
int floop_ioctl(struct block_device *bdev, blk_mode_t mode, unsigned int cmd,
		unsigned long arg)
{
	struct floop_device *dev = bdev->bd_disk->private_data;
	void __user *argp = (void __user *)arg;
	struct loop_config config = { };

	switch (cmd) {
	case LOOP_SET_FD:
		config.fd = arg;
		return floop_attach(dev, mode, bdev, &config);
	case LOOP_CONFIGURE:
		if (copy_from_user(&config, argp, sizeof(config)))
			return -EFAULT;
		return floop_attach(dev, mode, bdev, &config);
	case LOOP_CHANGE_FD:
		return floop_change_fd(dev, arg);
	case LOOP_CLR_FD:
		return floop_detach_later(dev);
	case LOOP_GET_STATUS:
		return get_status_loop_info(dev, argp);
	case LOOP_GET_STATUS64:
		return get_status64(dev, argp);
	case LOOP_SET_STATUS:
	case LOOP_SET_STATUS64:
	case LOOP_SET_BLOCK_SIZE:
	case LOOP_SET_CAPACITY:
	case LOOP_SET_DIRECT_IO:
		if (!may_change(mode))
			return -EPERM;
		break;
	}

	switch (cmd) {
	case LOOP_SET_STATUS:
		return set_status_loop_info(dev, argp);
	case LOOP_SET_STATUS64:
		return set_status64(dev, argp);
	case LOOP_SET_BLOCK_SIZE:
		return floop_settings_set_block_size(dev, mode, bdev, arg);
	default:
		return simple_ioctl(dev, cmd, arg);
	}
}

#ifdef CONFIG_COMPAT
/* struct loop_info as 32-bit programs know it. */
struct loop_info32 {
	compat_int_t	lo_number;
	compat_dev_t	lo_device;
	compat_ulong_t	lo_inode;
	compat_dev_t	lo_rdevice;
	compat_int_t	lo_offset;
	compat_int_t	lo_encrypt_type;
	compat_int_t	lo_encrypt_key_size;
	compat_int_t	lo_flags;
	char		lo_name[LO_NAME_SIZE];
	unsigned char	lo_encrypt_key[LO_KEY_SIZE];
	compat_ulong_t	lo_init[2];
	char		reserved[4];
};

DEFINE_SET_STATUS(loop_info32)
DEFINE_GET_STATUS(loop_info32)

/**
 * floop_compat_ioctl() - an ioctl of the device, by a 32-bit program
 * @bdev: the block device that is open, maybe a partition
 * @mode: how it was opened
 * @cmd: LOOP_*
 * @arg: its argument
 *
 * Context: Process context, with no lock held.
 * Return: 0 or an errno; -ENOIOCTLCMD for an ioctl that isn't known.
 */
int floop_compat_ioctl(struct block_device *bdev, blk_mode_t mode,
		       unsigned int cmd, unsigned long arg)
{
	struct floop_device *dev = bdev->bd_disk->private_data;

	switch (cmd) {
	case LOOP_SET_STATUS:
		if (!may_change(mode))
			return -EPERM;
		return set_status_loop_info32(dev, compat_ptr(arg));
	case LOOP_GET_STATUS:
		return get_status_loop_info32(dev, compat_ptr(arg));
	case LOOP_CONFIGURE:
	case LOOP_SET_STATUS64:
	case LOOP_GET_STATUS64:
		return floop_ioctl(bdev, mode, cmd,
				   (unsigned long)compat_ptr(arg));
	case LOOP_SET_FD:
	case LOOP_CHANGE_FD:
	case LOOP_CLR_FD:
	case LOOP_SET_CAPACITY:
	case LOOP_SET_DIRECT_IO:
	case LOOP_SET_BLOCK_SIZE:
		return floop_ioctl(bdev, mode, cmd, arg);
	default:
		return -ENOIOCTLCMD;
	}
}
#endif /* CONFIG_COMPAT */
