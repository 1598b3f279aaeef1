// SPDX-License-Identifier: GPL-2.0
/*
 * floop: files as block devices. Loading and unloading.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/bitops.h>
#include <linux/delay.h>
#include <linux/module.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#include "ahead.h"
#include "chunk.h"
#include "control.h"
#include "device.h"
#include "direct.h"
#include "helper.h"
#include "image.h"
#include "io.h"
#include "lane.h"
#include "map.h"
#include "names.h"
#include "rules.h"
#include "runs.h"

bool floop_drop_in;

static int set_names(const char *val, const struct kernel_param *kp)
{
	if (sysfs_streq(val, "loop"))
		floop_drop_in = true;
	else if (sysfs_streq(val, "floop"))
		floop_drop_in = false;
	else
		return -EINVAL;
	return 0;
}

static int get_names(char *buf, const struct kernel_param *kp)
{
	return sysfs_emit(buf, "%s\n", floop_names());
}

static const struct kernel_param_ops names_ops = {
	.set	= set_names,
	.get	= get_names,
};
module_param_cb(names, &names_ops, NULL, 0444);
MODULE_PARM_DESC(names, "floop (default): /dev/floopN, beside the loop driver; loop: /dev/loopN, in its place");

static int max_loop;
static bool max_loop_given;
static int max_part;

static int set_max_loop(const char *val, const struct kernel_param *kp)
{
	int err = param_set_int(val, kp);

	if (!err)
		max_loop_given = true;
	return err;
}

static const struct kernel_param_ops max_loop_ops = {
	.set	= set_max_loop,
	.get	= param_get_int,
};
module_param_cb(max_loop, &max_loop_ops, &max_loop, 0444);
MODULE_PARM_DESC(max_loop, "Devices to make at load; where given, also the most that opening a device node makes");

module_param(max_part, int, 0444);
MODULE_PARM_DESC(max_part, "Partitions of a device that get minors of its own; scans every device");

static int set_queue_depth(const char *val, const struct kernel_param *kp)
{
	int depth, err;

	err = kstrtoint(val, 0, &depth);
	if (err)
		return err;
	if (depth < 1)
		return -EINVAL;
	floop_queue_depth = depth;
	return 0;
}

static const struct kernel_param_ops queue_depth_ops = {
	.set	= set_queue_depth,
	.get	= param_get_int,
};
module_param_cb(hw_queue_depth, &queue_depth_ops, &floop_queue_depth, 0444);
MODULE_PARM_DESC(hw_queue_depth, "I/Os of a device that may wait in the file system at once. Default: 128");

module_param_named(mapping, floop_map_default, bool, 0644);
MODULE_PARM_DESC(mapping, "Map images to the disk where that is safe, unless told otherwise for a device. Default: yes");

static int set_direct(const char *val, const struct kernel_param *kp)
{
	if (sysfs_streq(val, "always"))
		WRITE_ONCE(floop_direct_only_asked, false);
	else if (sysfs_streq(val, "asked"))
		WRITE_ONCE(floop_direct_only_asked, true);
	else
		return -EINVAL;
	return 0;
}

static int get_direct(char *buf, const struct kernel_param *kp)
{
	return sysfs_emit(buf, "%s\n", READ_ONCE(floop_direct_only_asked) ?
					"asked" : "always");
}

static const struct kernel_param_ops direct_ops = {
	.set	= set_direct,
	.get	= get_direct,
};
module_param_cb(direct, &direct_ops, NULL, 0644);
MODULE_PARM_DESC(direct, "always (default): I/O to an image is direct wherever it can be; asked: only where it is asked for, as on the in-tree driver");

static int set_allocate(const char *val, const struct kernel_param *kp)
{
	return floop_ahead_parse(val, &floop_allocate_default);
}

static int get_allocate(char *buf, const struct kernel_param *kp)
{
	return floop_ahead_describe(READ_ONCE(floop_allocate_default), buf);
}

static const struct kernel_param_ops allocate_ops = {
	.set	= set_allocate,
	.get	= get_allocate,
};
module_param_cb(allocate, &allocate_ops, NULL, 0644);
MODULE_PARM_DESC(allocate, "What a write to a hole allocates at least, unless told otherwise for a device: auto (default), off, or bytes");

static int set_leave_free(const char *val, const struct kernel_param *kp)
{
	return param_set_uint_minmax(val, kp, 0, 100);
}

static const struct kernel_param_ops leave_free_ops = {
	.set	= set_leave_free,
	.get	= param_get_uint,
};
module_param_cb(leave_free, &leave_free_ops, &floop_leave_free, 0644);
MODULE_PARM_DESC(leave_free, "Percent of an image's file system that stays free: nothing is allocated ahead of it. Default: 5");

module_param_named(map_memory, floop_map_mib, uint, 0644);
MODULE_PARM_DESC(map_memory, "MiB of memory that the map of an image may take at most; what doesn't fit goes through the file system. Default: 64");

module_param_cb(helper, &floop_helper_ops, NULL, 0644);
MODULE_PARM_DESC(helper, "The program in whose memory file systems list extents: /usr/sbin/floop-extents (default); empty: none");

#ifdef FLOOP_DEBUG
unsigned long floop_rules_broken;
module_param_named(break_rules, floop_rules_broken, ulong, 0644);
MODULE_PARM_DESC(break_rules, "A bit for each rule of the guard that is not to hold (rules.h): loses data");

static unsigned long windows;
module_param(windows, ulong, 0644);
MODULE_PARM_DESC(windows, "A bit for each place where to wait (rules.h)");

static unsigned int window_ms = 100;
module_param(window_ms, uint, 0644);
MODULE_PARM_DESC(window_ms, "How many milliseconds to wait there at most");

static unsigned long window_waits;
module_param(window_waits, ulong, 0444);
MODULE_PARM_DESC(window_waits, "A bit for each place where somebody waits now");

/**
 * floop_window_is_open() - is a debug build told to wait there?
 * @window: the place
 *
 * Context: Any.
 * Return: true if floop_window() would wait.
 */
bool floop_window_is_open(enum floop_window window)
{
	return READ_ONCE(windows) & BIT(window);
}

/**
 * floop_window() - wait where a debug build is told to
 * @window: the place
 *
 * Context: Process context. May sleep.
 */
void floop_window(enum floop_window window)
{
	unsigned int ms = 0;

	while (floop_window_is_open(window) && ms++ < READ_ONCE(window_ms)) {
		set_bit(window, &window_waits);
		usleep_range(1000, 1100);
	}
	clear_bit(window, &window_waits);
}
#endif

static bool registered;		/* floop_init() can't fail any more */

/*
 * Add a device when its node is opened (CONFIG_BLOCK_LEGACY_AUTOLOAD), but not
 * while floop_init() may fail: it can't take back what somebody has open.
 */
static void floop_probe(dev_t devt)
{
	int index = floop_device_index(devt);

	if (!READ_ONCE(registered))
		return;

	if (max_loop_given && max_loop && index >= max_loop)
		return;
	floop_device_add(index);
}

static int __init floop_init(void)
{
	void (*probe)(dev_t devt) = NULL;
	int err, i;

	if (IS_ENABLED(CONFIG_BLOCK_LEGACY_AUTOLOAD))
		probe = floop_probe;
	err = floop_device_set_partitions(&max_part);
	if (err)
		return err;
	if (floop_drop_in && !max_loop_given)
		max_loop = FLOOP_DROP_IN_DEVICES;
	if (max_loop > floop_device_limit())
		return -EINVAL;

	err = floop_image_init();
	if (err)
		return err;
	err = floop_lane_init();
	if (err)
		goto err_image;
	err = floop_remap_init();
	if (err)
		goto err_lane;
	floop_chunk_init();
	err = floop_guard_init();
	if (err)
		goto err_remap;
	err = floop_helper_init();
	if (err)
		goto err_guard;
	/* Before the control node, which adds devices of that major. */
	err = floop_device_register_major(probe);
	if (err)
		goto err_helper;
	err = floop_control_register();
	if (err)
		goto err_major;
	WRITE_ONCE(registered, true);

	for (i = 0; i < max_loop; i++)
		floop_device_add(i);

	pr_info("module loaded (" FLOOP_VERSION ")\n");
	return 0;

err_major:
	floop_device_unregister_major();
err_helper:
	floop_helper_exit();
err_guard:
	floop_guard_exit();
err_remap:
	floop_chunk_exit();
	floop_remap_exit();
err_lane:
	floop_lane_exit();
err_image:
	floop_image_exit();
	return err;
}

/*
 * The control node goes last. The in-tree driver takes its minor first of all,
 * so that one isn't loaded while there are devices with its names.
 */
static void __exit floop_exit(void)
{
	floop_device_unregister_major();
	floop_device_remove_all();
	floop_control_unregister();
	floop_helper_exit();
	floop_guard_exit();
	floop_chunk_exit();
	floop_remap_exit();
	floop_lane_exit();
	floop_image_exit();
}

module_init(floop_init);
module_exit(floop_exit);

MODULE_DESCRIPTION("floop: files as block devices");
MODULE_VERSION(FLOOP_VERSION);
MODULE_LICENSE("GPL");
