/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A floop device: the disk that users see, and its settings. The image
 * (image.h) is the file that it is attached to.
 */
#ifndef FLOOP_DEVICE_H
#define FLOOP_DEVICE_H

#include <linux/blkdev.h>
#include <linux/loop.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>

struct floop_image;
struct floop_lanes;

/**
 * enum floop_state - where a device is in its life
 * @FLOOP_UNBOUND: no image; LOOP_CONFIGURE and LOOP_SET_FD attach one
 * @FLOOP_BOUND: attached to an image
 * @FLOOP_RUNDOWN: detached by its last close; can't be opened any more
 * @FLOOP_DELETING: the disk is going away
 */
enum floop_state {
	FLOOP_UNBOUND,
	FLOOP_BOUND,
	FLOOP_RUNDOWN,
	FLOOP_DELETING,
};

/**
 * struct floop_device - one /dev/floopN
 * @number: N
 * @disk: the gendisk
 * @lock: held to configure the device, and by the last close while it takes the
 *	image away; nests inside the disk's open_mutex
 * @state: changes under @lock, but for the last close, when nobody else has
 *	the device, and for %FLOOP_DELETING, which is set under the disk's
 *	open_mutex; read without a lock
 * @image: the image, NULL while unbound; changes under @lock and @image_lock,
 *	and with the queue frozen, or the device closed. Read by I/O (in the
 *	queue's usage counter), under @lock, under @image_lock, and by the check
 *	for cycles (see docs/design.md)
 * @lanes: the lanes; allocated for the first image, and kept
 * @image_lock: protects @image against readers of sysfs, who hold no other lock
 * @flags: LO_FLAGS_*
 * @size_limit: bytes of the image to show, 0 for all
 * @want_direct: direct I/O wherever the image allows it; the default
 * @direct_off: LOOP_SET_DIRECT_IO turned it off
 * @asked_direct: the user asked for direct I/O
 * @want_mapping: I/O is mapped wherever the guard allows it
 * @allocate: what a write to a hole allocates at least (FLOOP_ALLOCATE_*)
 * @keep_blocks: a discard succeeds, and the image keeps its blocks
 * @user_block_size: the user chose the logical block size
 * @name: the name that came with LOOP_SET_STATUS, for LOOP_GET_STATUS
 * @policy_told: the warning that io.latency has no effect is logged
 * @has_sysfs: the loop/ group is there
 * @attaching: an image is being bound, and may keep us waiting; under @lock
 * @listed: the control node may find the device; under the registry's lock
 */
struct floop_device {
	int number;
	struct gendisk *disk;
	/* protects configuration: image, flags, limits */
	struct mutex lock;
	enum floop_state state;
	struct floop_image *image;
	struct floop_lanes *lanes;
	/* protects the image pointer against sysfs */
	spinlock_t image_lock;
	u32 flags;
	loff_t size_limit;
	bool want_direct;
	bool direct_off;
	bool asked_direct;
	bool want_mapping;
	unsigned int allocate;
	bool keep_blocks;
	bool user_block_size;
	bool policy_told;
	bool has_sysfs;
	bool attaching;
	bool listed;
	char name[LO_NAME_SIZE];
};

int floop_device_add(int number);
int floop_device_remove(int number);
int floop_device_get_free(void);
void floop_device_remove_all(void);
struct floop_device *floop_device_of(struct block_device *bdev);
int floop_device_set_partitions(int *max_part);
int floop_device_register_major(void (*probe)(dev_t devt));
void floop_device_unregister_major(void);
int floop_device_index(dev_t devt);
int floop_device_limit(void);
bool floop_device_scans_always(void);

/* ioctl.c: <linux/loop.h> */
int floop_ioctl(struct block_device *bdev, blk_mode_t mode, unsigned int cmd,
		unsigned long arg);
int floop_compat_ioctl(struct block_device *bdev, blk_mode_t mode,
		       unsigned int cmd, unsigned long arg);

/* sysfs.c: /sys/block/NAME/loop/, there while the device is attached */
void floop_sysfs_add(struct floop_device *dev);
void floop_sysfs_remove(struct floop_device *dev);

#endif /* FLOOP_DEVICE_H */
