// SPDX-License-Identifier: GPL-2.0
/*
 * Direct I/O for memory that isn't aligned for the disk's DMA engine. File
 * systems submit such bios. The data goes through the image's bounce buffer, a
 * piece at a time and one I/O at a time: slow, but without allocation.
 * (Buffered I/O is no alternative: beside direct I/O to the same page it loses
 * data.)
 *
 * Hardly any I/O needs it. So an image on hardware, which waits for no other
 * floop device, allocates a page when an I/O needs one. All such images share a
 * reserve of one page.
 */
#include <linux/bvec.h>
#include <linux/fs.h>
#include <linux/gfp.h>
#include <linux/mempool.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/uio.h>

#include "direct.h"
#include "image.h"
#include "io.h"

static mempool_t shared;

static ssize_t bounce_piece(struct floop_io *io, void *bounce)
{
	bool write = bio_op(io->bio) == REQ_OP_WRITE;
	struct floop_image *image = io->image;
	struct file *file = image->file;
	struct kiocb iocb = {
		.ki_filp = file,
		.ki_pos = floop_rw_pos(io),
		.ki_ioprio = io->iocb.ki_ioprio,
		.ki_flags = io->iocb.ki_flags,
	};
	struct iov_iter memory, buffer;
	struct bio_vec bvec;
	size_t bytes;
	ssize_t ret;
	int side;

	floop_rw_iter(io, &memory);
	bytes = min_t(size_t, iov_iter_count(&memory), image->bounce_size);
	bvec_set_virt(&bvec, bounce, bytes);
	iov_iter_bvec(&buffer, write ? ITER_SOURCE : ITER_DEST, &bvec, 1,
		      bytes);

	if (!write) {
		side = floop_calls_begin(image, READ, true);
		ret = floop_direct_io(&iocb, &buffer);
		floop_calls_end(image, READ, side);
		if (ret > 0 && copy_to_iter(bounce, ret, &memory) != ret)
			ret = -EFAULT;
		return ret;
	}
	if (copy_from_iter(bounce, bytes, &memory) != bytes)
		return -EFAULT;
	side = floop_calls_begin(image, WRITE, true);
	ret = floop_direct_io(&iocb, &buffer);
	floop_calls_end(image, WRITE, side);
	return ret;
}

/**
 * floop_bounce() - read or write through the image's bounce buffer
 * @io: the I/O, its iocb's flags set
 *
 * Context: A worker of the image, in its reclaim scope. Sleeps.
 */
void floop_bounce(struct floop_io *io)
{
	struct floop_image *image = io->image;
	unsigned int size = io->bio->bi_iter.bi_size, before = io->done;
	bool write = bio_op(io->bio) == REQ_OP_WRITE;
	ssize_t ret = 0;
	struct page *page;
	void *bounce;

	/* Before taking the buffer: others need it during a long freeze. */
	if (write && !image->is_bdev)
		file_start_write(image->file);
	mutex_lock(&image->bounce_lock);
	page = image->bounce ?: mempool_alloc(&shared, GFP_NOIO);
	bounce = page_address(page);
	while (io->done < size) {
		ret = bounce_piece(io, bounce);
		if (ret <= 0)
			break;
		io->done += ret;
	}
	if (page != image->bounce)
		mempool_free(page, &shared);
	mutex_unlock(&image->bounce_lock);
	if (write && !image->is_bdev)
		file_end_write(image->file);

	if (io->done < size) {
		floop_rw_end(io, ret, NULL);
		return;
	}
	/* Report all pieces as one call to the file system would. */
	ret = size - before;
	io->done = before;
	floop_rw_end(io, ret, NULL);
}

/**
 * floop_bounce_init_image() - prepare an image's buffer
 * @image: the image, its rules for direct I/O known
 *
 * Context: Process context. May sleep.
 * Return: 0 or -ENOMEM.
 */
int floop_bounce_init_image(struct floop_image *image)
{
	mutex_init(&image->bounce_lock);
	image->bounce_size = max_t(unsigned int, PAGE_SIZE, image->rules.align);
	if (image->bounce_size == PAGE_SIZE &&
	    floop_image_is_on_hardware(image))
		return 0;
	/* Whole pages: network file systems take references. */
	image->bounce = alloc_pages(GFP_KERNEL | __GFP_COMP,
				    get_order(image->bounce_size));
	return image->bounce ? 0 : -ENOMEM;
}

/**
 * floop_bounce_exit_image() - undo floop_bounce_init_image()
 * @image: the image; no I/O is in flight
 *
 * Context: Process context. May sleep.
 */
void floop_bounce_exit_image(struct floop_image *image)
{
	if (image->bounce)
		put_page(image->bounce);
	mutex_destroy(&image->bounce_lock);
}

/**
 * floop_bounce_init() - set up the shared reserve
 *
 * Context: Process context. May sleep.
 * Return: 0 or -ENOMEM.
 */
int floop_bounce_init(void)
{
	return mempool_init_page_pool(&shared, 1, 0);
}

/**
 * floop_bounce_exit() - undo floop_bounce_init()
 *
 * Context: Process context. May sleep.
 */
void floop_bounce_exit(void)
{
	mempool_exit(&shared);
}
