// SPDX-License-Identifier: GPL-2.0
/*
 * Where a bio comes in, and where it ends.
 *
 * A bio in flight holds the queue's usage counter, as a request of a blk-mq
 * driver does. The counter is a percpu_ref, so no two CPUs share a word over
 * it, and freezing the queue drains it. It is the only count of I/O in flight.
 */
#include <linux/blkdev.h>
#include <linux/part_stat.h>

#include "device.h"
#include "hole.h"
#include "image.h"
#include "io.h"
#include "lane.h"
#include "trace.h"

/**
 * floop_io_check_policy() - warn that io.latency does nothing here
 * @dev: the device
 *
 * The kernel accepts a latency target for any disk, but applies it only to
 * request-based ones. (It refuses io.cost for a bio-based disk; io.max works.)
 *
 * Context: Any, in the queue's usage counter.
 */
void floop_io_check_policy(struct floop_device *dev)
{
	if (likely(!READ_ONCE(dev->disk->queue->rq_qos)) || dev->policy_told)
		return;
	dev->policy_told = true;
	pr_warn("%s: io.latency has no effect on this device: set it for the disk below\n",
		dev->disk->disk_name);
}

/**
 * floop_submit_bio() - take a bio
 * @bio: the bio, within the device's capacity
 *
 * Sends the bio to the disk if it is mapped, else hands it to a lane. Doesn't
 * call the file system: current->bio_list is set here, so a bio that is
 * submitted below waits until we return. The file system may wait for such a
 * bio, and would wait forever.
 *
 * Context: Process context, in the queue's usage counter. Waits for memory from
 * the image's reserve, which is refilled as I/O completes. Doesn't wait with
 * REQ_NOWAIT.
 */
void floop_submit_bio(struct bio *bio)
{
	struct floop_device *dev = bio->bi_bdev->bd_disk->private_data;
	struct floop_image *image = dev->image;
	enum floop_cause cause;
	struct floop_io *io;

	if (unlikely(!image))
		goto io_error;
	switch (bio_op(bio)) {
	case REQ_OP_READ:
		cause = floop_remap(image, &bio);
		if (cause == FLOOP_CAUSE_NONE)
			return;
		break;
	case REQ_OP_WRITE:
		if (unlikely(image->read_only))
			goto io_error;
		cause = floop_remap(image, &bio);
		if (cause == FLOOP_CAUSE_NONE)
			return;
		break;
	case REQ_OP_DISCARD:
	case REQ_OP_WRITE_ZEROES:
		if (unlikely(image->read_only))
			goto io_error;
		if (READ_ONCE(dev->keep_blocks)) {
			floop_discard_kept(bio);
			return;
		}
		cause = FLOOP_CAUSE_DISCARD;
		break;
	default:
		floop_io_failed(image, bio, BLK_STS_NOTSUPP);
		bio->bi_status = BLK_STS_NOTSUPP;
		bio_endio(bio);
		return;
	}

	floop_io_check_policy(dev);
	this_cpu_inc(image->counts->file[cause]);
	trace_floop_io_file(image, bio);

	io = mempool_alloc(&image->ios, bio->bi_opf & REQ_NOWAIT ? GFP_NOWAIT :
								   GFP_NOIO);
	if (unlikely(!io)) {
		bio_wouldblock_error(bio);
		return;
	}
	percpu_ref_get(&dev->disk->queue->q_usage_counter);
	io->bio = bio;
	io->image = image;
	io->done = 0;
	io->flags = cause == FLOOP_CAUSE_SHARED ? FLOOP_IO_PLAIN : 0;
	if (bio_op(bio) == REQ_OP_WRITE && bio_sectors(bio))
		floop_holes_write_begin(io);
	if (blk_queue_io_stat(dev->disk->queue) && bio->bi_iter.bi_size) {
		io->flags |= FLOOP_IO_COUNTED;
		io->start = bio_start_io_acct(bio);
	}
	if (blk_queue_io_stat(dev->disk->queue) &&
	    (bio->bi_opf & REQ_PREFLUSH)) {
		io->flags |= FLOOP_IO_FLUSH_COUNTED;
		io->start = jiffies;
	}
	floop_lane_route(io);
	return;

io_error:
	floop_io_failed(image, bio, BLK_STS_IOERR);
	bio_io_error(bio);
}

/**
 * floop_io_count_flush() - count a flush in the disk's statistics
 * @bio: with REQ_PREFLUSH, as it came
 * @start: its arrival, in jiffies
 *
 * The block layer counts the flush requests that it sends to a driver, but not
 * the flushes of a bio-based driver.
 *
 * Context: Any, interrupts included.
 */
void floop_io_count_flush(struct bio *bio, unsigned long start)
{
	struct block_device *disk = bio->bi_bdev->bd_disk->part0;

	part_stat_lock();
	part_stat_inc(disk, ios[STAT_FLUSH]);
	part_stat_add(disk, nsecs[STAT_FLUSH],
		      jiffies_to_nsecs(jiffies - start));
	part_stat_unlock();
}

/* The block layer's names for the errors of file systems and disks. */
static const char *status_name(blk_status_t status)
{
	switch (status) {
	case BLK_STS_NOTSUPP:
		return "operation not supported";
	case BLK_STS_NOSPC:
		return "critical space allocation";
	case BLK_STS_TIMEOUT:
		return "timeout";
	case BLK_STS_TRANSPORT:
		return "recoverable transport";
	case BLK_STS_TARGET:
		return "critical target";
	case BLK_STS_MEDIUM:
		return "critical medium";
	case BLK_STS_PROTECTION:
		return "protection";
	case BLK_STS_RESOURCE:
		return "kernel resource";
	case BLK_STS_OFFLINE:
		return "device offline";
	default:
		return "I/O";
	}
}

/**
 * floop_io_failed() - count and log a bio that has failed
 * @image: the image, or NULL: the device has none
 * @bio: the bio, as it came
 * @status: how it ended
 *
 * The block layer logs failed requests (blk_print_req_error()), and people and
 * programs look for these lines. Logs in the same words, with the same rate
 * limit.
 *
 * Context: Any, interrupts included.
 */
void floop_io_failed(struct floop_image *image, struct bio *bio,
		     blk_status_t status)
{
	if (status == BLK_STS_AGAIN || bio_flagged(bio, BIO_QUIET))
		return;
	/* Whoever asks for what the image can't do does it another way. */
	if (image && status != BLK_STS_NOTSUPP)
		this_cpu_inc(image->counts->failed);
	pr_err_ratelimited("%s error, dev %s, sector %llu op 0x%x:(%s) flags 0x%x phys_seg %u prio class %u\n",
			   status_name(status),
			   bio->bi_bdev->bd_disk->disk_name,
			   (u64)bio->bi_iter.bi_sector,
			   (__force u32)bio_op(bio), blk_op_str(bio_op(bio)),
			   (__force u32)(bio->bi_opf & ~REQ_OP_MASK),
			   bio_segments(bio),
			   IOPRIO_PRIO_CLASS(bio->bi_ioprio));
}

static void end_bio(struct bio *bio)
{
	struct request_queue *q = bdev_get_queue(bio->bi_bdev);

	bio_endio(bio);
	percpu_ref_put(&q->q_usage_counter);
}

/*
 * A write through the file system has ended: tell the mapped path. A range that
 * couldn't be written is not looked up, for that would fail, too; but if the
 * file shares blocks, some may have moved. If a FUA write wanted an fsync, the
 * next commit of a journal (PREFLUSH and FUA) would come here for that, and
 * want one itself, and so would all that follow.
 */
static void note_write(struct floop_io *io, bool failed)
{
	struct floop_image *image = io->image;
	struct bio *bio = io->bio;

	/* Pairs with smp_mb() in floop_flush(): fsynced, or marked here. */
	smp_mb();
	if ((failed || !(io->flags & FLOOP_IO_DURABLE)) &&
	    READ_ONCE(image->sync) != FLOOP_UNSYNCED)
		WRITE_ONCE(image->sync, FLOOP_UNSYNCED);
	if (bio_op(bio) == REQ_OP_WRITE &&
	    (!failed || READ_ONCE(image->fill.shared)))
		floop_fill_wrote(image, (image->offset >> SECTOR_SHIFT) +
				 bio->bi_iter.bi_sector, bio_sectors(bio),
				 !floop_io_is_of_cgroup(bio));
}

/**
 * floop_io_end() - complete a bio
 * @io: the I/O; gone afterwards
 * @status: how it ended
 * @batch: where to leave the bio for floop_io_end_batch(), or NULL
 *
 * Context: Any, interrupts included.
 */
void floop_io_end(struct floop_io *io, blk_status_t status,
		  struct bio_list *batch)
{
	struct floop_image *image = io->image;
	struct bio *bio = io->bio;

	floop_holes_write_end(io);
	if (io->flags & FLOOP_IO_COUNTED)
		bio_end_io_acct(bio, io->start);
	if (io->flags & FLOOP_IO_FLUSH_COUNTED)
		floop_io_count_flush(bio, io->start);
	if (bio_op(bio) != REQ_OP_READ && bio_sectors(bio))
		note_write(io, status != BLK_STS_OK);
	/* The parts of a merged write are tried again. */
	if (unlikely(status) && !(io->flags & FLOOP_IO_MERGED))
		floop_io_failed(image, bio, status);
	mempool_free(io, &image->ios);
	bio->bi_status = status;
	if (batch)
		bio_list_add(batch, bio);
	else
		end_bio(bio);
}

/**
 * floop_io_release_bio() - free an I/O, but keep its bio
 * @io: the I/O; gone afterwards
 *
 * Context: Any, interrupts included.
 * Return: the bio, as it came, to be submitted again. The caller puts the
 * queue's usage counter.
 */
struct bio *floop_io_release_bio(struct floop_io *io)
{
	struct bio *bio = io->bio;

	floop_holes_write_end(io);
	if (io->flags & FLOOP_IO_COUNTED)
		bio_end_io_acct(bio, io->start);
	mempool_free(io, &io->image->ios);
	return bio;
}

/**
 * floop_io_end_batch() - complete the bios that a worker has collected
 * @batch: filled by floop_io_end(); empty afterwards
 *
 * Completing each bio as it is done would wake the submitter after the first,
 * and let it run before the others are done.
 *
 * Context: Any, interrupts included.
 */
void floop_io_end_batch(struct bio_list *batch)
{
	struct bio *bio;

	while ((bio = bio_list_pop(batch)))
		end_bio(bio);
}

/**
 * floop_io_status() - turn an error of the file system into a bio's status
 * @err: a negative errno
 *
 * A full file system and a full quota become a full disk, as the file system
 * above can handle ENOSPC. -EAGAIN from a call that was allowed to wait becomes
 * an I/O error, as does an errno without a status of its own.
 *
 * Context: Any.
 * Return: the status to end the bio with.
 */
blk_status_t floop_io_status(int err)
{
	switch (err) {
	case -EDQUOT:
		return BLK_STS_NOSPC;
	case -EAGAIN:
		return BLK_STS_IOERR;
	default:
		return errno_to_blk_status(err);
	}
}
