// SPDX-License-Identifier: GPL-2.0
/*
 * /sys/block/NAME/loop/: the in-tree driver's files, which losetup and lsblk
 * read, and files of floop's own: the driver, the reason why I/O is not direct,
 * discard and mapping. Reading waits for nothing; writing takes the device's
 * lock.
 */
#include <linux/blkdev.h>
#include <linux/capability.h>
#include <linux/fs.h>
#include <linux/string.h>
#include <linux/string_helpers.h>
#include <linux/sysfs.h>
#include <linux/user_namespace.h>

#include "device.h"
#include "image.h"
#include "lease.h"
#include "names.h"
#include "settings.h"

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
			verdict = dev->direct_off ? FLOOP_DIRECT_OFF :
						    FLOOP_DIRECT_NOT_ASKED;
		len = floop_direct_describe(dev->image, verdict, buf,
					    PAGE_SIZE - 1);
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
	struct floop_device *dev = to_floop(ddev);
	bool direct = false;

	spin_lock(&dev->image_lock);
	if (dev->image)
		direct = dev->image->direct;
	spin_unlock(&dev->image_lock);
	return sysfs_emit(buf, "%d\n", direct);
}

static ssize_t driver_show(struct device *ddev, struct device_attribute *attr,
			   char *buf)
{
	return sysfs_emit(buf, "floop\n");
}

/* Show something of the image, or nothing without one. */
static ssize_t image_show(struct device *ddev, char *buf,
			  ssize_t (*show)(struct floop_image *image, char *buf))
{
	struct floop_device *dev = to_floop(ddev);
	ssize_t len = 0;

	spin_lock(&dev->image_lock);
	if (dev->image)
		len = show(dev->image, buf);
	spin_unlock(&dev->image_lock);
	return len;
}

#define IMAGE_ATTR_RO(_name, _format, ...)				\
static ssize_t _name##_of(struct floop_image *image, char *buf)	\
{									\
	return sysfs_emit(buf, _format "\n", __VA_ARGS__);		\
}									\
static ssize_t _name##_show(struct device *ddev,			\
			    struct device_attribute *attr, char *buf)	\
{									\
	return image_show(ddev, buf, _name##_of);			\
}									\
static DEVICE_ATTR_RO(_name)

/* The words that docs/command.md lists. */
static const char *unmapped_text(enum floop_unmapped why_not)
{
	static const char * const words[] = {
		[FLOOP_UNMAPPED_NOT]		= "mapped",
		[FLOOP_UNMAPPED_OFF]		= "turned off",
		[FLOOP_UNMAPPED_BUFFERED]	= "I/O to the image is not direct",
		[FLOOP_UNMAPPED_FILE_SYSTEM]	= "the image is not on ext4 or xfs",
		[FLOOP_UNMAPPED_FILE]		= "the file needs its file system for every I/O",
		[FLOOP_UNMAPPED_DISK]		= "the disk can't be mapped to",
		[FLOOP_UNMAPPED_OPENED]		= "someone else has the image open",
		[FLOOP_UNMAPPED_NO_LEASES]	= "the file system grants no lease",
		[FLOOP_UNMAPPED_CACHED]		= "the image's pages don't leave the page cache",
		[FLOOP_UNMAPPED_NO_MEMORY]	= "no memory for the map",
		[FLOOP_UNMAPPED_BEGINNING]	= "not yet",
		[FLOOP_UNMAPPED_CHANGING]	= "a discard changes the image",
	};

	return words[why_not];
}

IMAGE_ATTR_RO(mapped, "%d",
	      floop_guard_why_not(image) == FLOOP_UNMAPPED_NOT);
IMAGE_ATTR_RO(mapped_reason, "%s",
	      unmapped_text(floop_guard_why_not(image)));

/* The causes that ios_file is the sum of. */
static const char * const cause_names[] = {
	[FLOOP_CAUSE_DISCARD]	= "ios_file_discard",
	[FLOOP_CAUSE_EPOCH]	= "ios_file_epoch",
	[FLOOP_CAUSE_CACHE]	= "ios_file_cache",
	[FLOOP_CAUSE_FLUSH]	= "ios_file_flush",
	[FLOOP_CAUSE_HOLE]	= "ios_file_hole",
	[FLOOP_CAUSE_UNWRITTEN]	= "ios_file_unwritten",
	[FLOOP_CAUSE_EMPTY]	= "ios_file_empty",
	[FLOOP_CAUSE_SHARED]	= "ios_file_shared",
	[FLOOP_CAUSE_BLOCKS]	= "ios_file_blocks",
	[FLOOP_CAUSE_ALIGNMENT]	= "ios_file_alignment",
	[FLOOP_CAUSE_DISK]	= "ios_file_disk",
	[FLOOP_CAUSE_FROZEN]	= "ios_file_frozen",
	[FLOOP_CAUSE_MEMORY]	= "ios_file_memory",
};

/* These add lines at @len, and return where they end. */
static ssize_t show_ios(struct floop_image *image, char *buf, ssize_t len)
{
	const struct floop_counts *counts;
	u64 file[FLOOP_CAUSES] = {};
	u64 mapped = 0, holes = 0, failed = 0, sum = 0;
	unsigned int cause;
	int cpu;

	for_each_possible_cpu(cpu) {
		counts = per_cpu_ptr(image->counts, cpu);
		mapped += READ_ONCE(counts->mapped);
		holes += READ_ONCE(counts->holes);
		failed += READ_ONCE(counts->failed);
		for (cause = 0; cause < FLOOP_CAUSES; cause++)
			file[cause] += READ_ONCE(counts->file[cause]);
	}
	for (cause = 0; cause < FLOOP_CAUSES; cause++)
		sum += file[cause];
	len += sysfs_emit_at(buf, len, "ios_mapped %llu\n", mapped);
	len += sysfs_emit_at(buf, len, "ios_holes %llu\n", holes);
	len += sysfs_emit_at(buf, len, "ios_file %llu\n", sum);
	for (cause = FLOOP_CAUSE_NONE + 1; cause < FLOOP_CAUSES; cause++)
		len += sysfs_emit_at(buf, len, "%s %llu\n",
				     cause_names[cause], file[cause]);
	return len + sysfs_emit_at(buf, len, "ios_failed %llu\n", failed);
}

/*
 * A name may have any bytes in it, except a zero. As in /proc/mounts, a
 * backslash is octal; so is all that isn't printable ASCII. (%pE escapes
 * neither backslashes nor all of UTF-8: what is left is in no encoding.)
 *
 * Everybody may read the file, in containers and past hidepid= of /proc, so who
 * the breaker is isn't for everybody.
 */
static ssize_t show_breaker(struct floop_image *image, char *buf, ssize_t len)
{
	struct floop_breaker breaker = floop_guard_breaker(image);
	char name[4 * TASK_COMM_LEN];
	int size;

	if (!ns_capable_noaudit(&init_user_ns, CAP_SYS_ADMIN)) {
		breaker.pid = 0;
		breaker.name[0] = '\0';
	}
	size = string_escape_mem(breaker.name,
				 strnlen(breaker.name, TASK_COMM_LEN), name,
				 sizeof(name),
				 ESCAPE_NAP | ESCAPE_APPEND | ESCAPE_OCTAL,
				 "\\");

	return len + sysfs_emit_at(buf, len,
				   "broken_at %lld\n"
				   "broken_pid %d\n"
				   "broken_by %.*s\n",
				   breaker.time, breaker.pid, size, name);
}

/* One file, like a cgroup's memory.stat: each file makes an attach slower. */
static ssize_t stat_of(struct floop_image *image, char *buf)
{
	const struct floop_map *map = &image->guard.map;
	const struct floop_map *shared = &image->shared.map;
	u64 sectors = READ_ONCE(map->sectors) + READ_ONCE(shared->sectors);
	ssize_t len;

	len = sysfs_emit(buf,
			 "mapped_bytes %llu\n"
			 "mapped_shared_bytes %llu\n"
			 "mapped_extents %lu\n"
			 "mapped_memory %zu\n"
			 "zeroed_bytes %llu\n"
			 "spare_bytes %llu\n"
			 "epochs_begun %lu\n"
			 "epochs_broken %lu\n"
			 "readers %u\n",
			 sectors << SECTOR_SHIFT,
			 (u64)READ_ONCE(image->shared.sectors) << SECTOR_SHIFT,
			 READ_ONCE(map->extents) + READ_ONCE(shared->extents),
			 floop_map_bytes(map) + floop_map_bytes(shared),
			 READ_ONCE(image->ahead.bytes),
			 (u64)floop_spare_sectors(&image->spare) <<
			 SECTOR_SHIFT,
			 READ_ONCE(image->guard.begun),
			 READ_ONCE(image->guard.broken),
			 floop_lease_readers(image));
	len = show_ios(image, buf, len);
	/* The name is last: what reads numbers only ends there. */
	return show_breaker(image, buf, len);
}

static ssize_t stat_show(struct device *ddev, struct device_attribute *attr,
			 char *buf)
{
	return image_show(ddev, buf, stat_of);
}
static DEVICE_ATTR_RO(stat);

static ssize_t mapping_show(struct device *ddev, struct device_attribute *attr,
			    char *buf)
{
	return sysfs_emit(buf, "%d\n", READ_ONCE(to_floop(ddev)->want_mapping));
}

/* Change a setting under the device's lock; returns 0 or an errno. */
static int store_setting(struct device *ddev, bool value,
			 int (*set)(struct floop_device *dev, bool value))
{
	struct floop_device *dev = to_floop(ddev);
	int err;

	err = mutex_lock_killable(&dev->lock);
	if (err)
		return err;
	err = set(dev, value);
	mutex_unlock(&dev->lock);
	return err;
}

static ssize_t mapping_store(struct device *ddev, struct device_attribute *attr,
			     const char *buf, size_t len)
{
	bool mapping;
	int err;

	err = kstrtobool(buf, &mapping);
	if (!err)
		err = store_setting(ddev, mapping, floop_settings_set_mapping);
	return err ?: len;
}

static const char * const discard_words[] = {
	[false]	= "pass",
	[true]	= "keep",
};

static ssize_t discard_show(struct device *ddev, struct device_attribute *attr,
			    char *buf)
{
	bool keep = READ_ONCE(to_floop(ddev)->keep_blocks);

	return sysfs_emit(buf, "%s\n", discard_words[keep]);
}

static ssize_t discard_store(struct device *ddev, struct device_attribute *attr,
			     const char *buf, size_t len)
{
	int keep = sysfs_match_string(discard_words, buf);

	if (keep < 0)
		return keep;
	return store_setting(ddev, keep, floop_settings_set_keep) ?: len;
}

static ssize_t allocate_show(struct device *ddev,
			     struct device_attribute *attr, char *buf)
{
	return floop_ahead_describe(READ_ONCE(to_floop(ddev)->allocate), buf);
}

static ssize_t allocate_store(struct device *ddev,
			      struct device_attribute *attr, const char *buf,
			      size_t len)
{
	struct floop_device *dev = to_floop(ddev);
	unsigned int allocate;
	int err;

	err = floop_ahead_parse(buf, &allocate);
	if (err)
		return err;
	err = mutex_lock_killable(&dev->lock);
	if (err)
		return err;
	err = floop_settings_set_allocate(dev, allocate);
	mutex_unlock(&dev->lock);
	return err ?: len;
}

static DEVICE_ATTR_RW(allocate);
static DEVICE_ATTR_RW(discard);
static DEVICE_ATTR_RW(mapping);
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
	&dev_attr_allocate.attr,
	&dev_attr_discard.attr,
	&dev_attr_mapping.attr,
	&dev_attr_mapped.attr,
	&dev_attr_mapped_reason.attr,
	&dev_attr_stat.attr,
	NULL,
};

/* losetup looks for this name, in either mode. */
static const struct attribute_group floop_group = {
	.name	= "loop",
	.attrs	= floop_attrs,
};

/**
 * floop_sysfs_add() - show an attached device's loop/ group
 * @dev: the device
 *
 * Without the group the device works all the same, so failing is no error.
 *
 * Context: Process context, with the device's lock held. May sleep.
 */
void floop_sysfs_add(struct floop_device *dev)
{
	dev->has_sysfs = !sysfs_create_group(&disk_to_dev(dev->disk)->kobj,
					     &floop_group);
}

/**
 * floop_sysfs_remove() - remove the loop/ group
 * @dev: the device
 *
 * Context: Process context, without the device's lock: waits for readers, who
 * take the image_lock, and for writers, who take the device's lock.
 */
void floop_sysfs_remove(struct floop_device *dev)
{
	if (dev->has_sysfs)
		sysfs_remove_group(&disk_to_dev(dev->disk)->kobj, &floop_group);
	dev->has_sysfs = false;
}
