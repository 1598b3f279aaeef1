// SPDX-License-Identifier: GPL-2.0
/*
 * The registry of devices, and /dev/floop-control (/dev/loop-control in
 * drop-in mode): LOOP_CTL_ADD, LOOP_CTL_REMOVE and LOOP_CTL_GET_FREE.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/mutex.h>
#include <linux/xarray.h>

#include "control.h"
#include "device.h"
#include "names.h"

static DEFINE_XARRAY_ALLOC(devices);
static DEFINE_MUTEX(devices_lock);	/* devices, and floop_device::listed */

/**
 * floop_control_reserve() - give a device its number
 * @dev: a device that is being made; its number is set
 * @number: the number asked for, or a negative one for the first that is free
 *
 * Context: Process context. Takes the registry's lock.
 * Return: 0, or -EEXIST, -EINTR, -ENOMEM.
 */
int floop_control_reserve(struct floop_device *dev, int number)
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

/**
 * floop_control_show() - let the control node find a device
 * @dev: a device whose disk is there
 */
void floop_control_show(struct floop_device *dev)
{
	mutex_lock(&devices_lock);
	dev->listed = true;
	mutex_unlock(&devices_lock);
}

/**
 * floop_control_forget() - free the number of a device
 * @dev: a device whose disk is gone, or was never there
 */
void floop_control_forget(struct floop_device *dev)
{
	mutex_lock(&devices_lock);
	xa_erase(&devices, dev->number);
	mutex_unlock(&devices_lock);
}

static int control_remove(int number)
{
	struct floop_device *dev;
	int err;

	if (number < 0) {
		pr_warn_once("LOOP_CTL_REMOVE needs the number of a device\n");
		return -EINVAL;
	}

	/* While it is not listed, nobody else removes the same device. */
	err = mutex_lock_killable(&devices_lock);
	if (err)
		return err;
	dev = xa_load(&devices, number);
	if (dev && dev->listed)
		dev->listed = false;
	else
		err = -ENODEV;
	mutex_unlock(&devices_lock);
	if (err)
		return err;

	if (!floop_device_retire(dev)) {
		floop_control_show(dev);
		return -EBUSY;
	}
	floop_device_remove(dev);
	return 0;
}

static int control_get_free(void)
{
	struct floop_device *dev;
	unsigned long number;
	int err;

	err = mutex_lock_killable(&devices_lock);
	if (err)
		return err;
	xa_for_each(&devices, number, dev) {
		/* Whoever takes it first has it: the others get -EBUSY. */
		if (dev->listed && READ_ONCE(dev->state) == FLOOP_UNBOUND) {
			mutex_unlock(&devices_lock);
			return number;
		}
	}
	mutex_unlock(&devices_lock);
	return floop_device_add(-1);
}

static long control_ioctl(struct file *file, unsigned int cmd,
			  unsigned long arg)
{
	switch (cmd) {
	case LOOP_CTL_ADD:
		return floop_device_add(arg);
	case LOOP_CTL_REMOVE:
		return control_remove(arg);
	case LOOP_CTL_GET_FREE:
		return control_get_free();
	default:
		return -ENOSYS;
	}
}

static const struct file_operations control_fops = {
	.owner		= THIS_MODULE,
	.open		= nonseekable_open,
	.unlocked_ioctl	= control_ioctl,
	.compat_ioctl	= control_ioctl,
	.llseek		= noop_llseek,
};

static struct miscdevice control_node = {
	.minor	= FLOOP_CONTROL_MINOR,
	.name	= FLOOP_NAME "-control",
	.fops	= &control_fops,
};

/**
 * floop_control_register() - make the control node
 *
 * Return: 0 or an errno.
 */
int floop_control_register(void)
{
	return misc_register(&control_node);
}

/**
 * floop_control_unregister() - take the control node away
 */
void floop_control_unregister(void)
{
	misc_deregister(&control_node);
}

/**
 * floop_control_remove_all() - take every device away, as the module goes
 *
 * Context: Module exit. Nobody can open or attach a device any more.
 */
void floop_control_remove_all(void)
{
	struct floop_device *dev;
	unsigned long number;

	xa_for_each(&devices, number, dev)
		floop_device_remove(dev);
	xa_destroy(&devices);
}
