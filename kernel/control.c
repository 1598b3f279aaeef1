// SPDX-License-Identifier: GPL-2.0
/*
 * /dev/floop-control (/dev/loop-control in drop-in mode): LOOP_CTL_ADD,
 * LOOP_CTL_REMOVE and LOOP_CTL_GET_FREE; and FLOOP_CTL_HELP, for the helper.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/fs.h>
#include <linux/loop.h>
#include <linux/miscdevice.h>

#include "control.h"
#include "device.h"
#include "helper.h"
#include "names.h"

static int control_remove(int number)
{
	if (number < 0) {
		pr_warn_once("LOOP_CTL_REMOVE needs the number of a device\n");
		return -EINVAL;
	}
	return floop_device_remove(number);
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
		return floop_device_get_free();
	case FLOOP_CTL_HELP:
		return floop_helper_serve(file, arg);
	default:
		return -ENOSYS;
	}
}

static int control_open(struct inode *inode, struct file *file)
{
	/* The helper's buffer; misc_open() has left something else there. */
	file->private_data = NULL;
	return nonseekable_open(inode, file);
}

static int control_release(struct inode *inode, struct file *file)
{
	floop_helper_release(file);
	return 0;
}

static const struct file_operations control_fops = {
	.owner		= THIS_MODULE,
	.open		= control_open,
	.release	= control_release,
	.mmap		= floop_helper_mmap,
	.unlocked_ioctl	= control_ioctl,
	.compat_ioctl	= control_ioctl,
	.llseek		= noop_llseek,
};

static struct miscdevice control_node = {
	.minor	= MISC_DYNAMIC_MINOR,
	.name	= "floop-control",
	.fops	= &control_fops,
};

/**
 * floop_control_register() - register the control node
 *
 * Context: Module init. May sleep.
 * Return: 0 or an errno.
 */
int floop_control_register(void)
{
	if (floop_drop_in) {
		control_node.minor = LOOP_CTRL_MINOR;
		control_node.name = "loop-control";
	}
	return misc_register(&control_node);
}

/**
 * floop_control_unregister() - remove the control node
 *
 * Context: Module exit. May sleep.
 */
void floop_control_unregister(void)
{
	misc_deregister(&control_node);
}
