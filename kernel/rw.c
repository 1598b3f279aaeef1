// SPDX-License-Identifier: GPL-2.0
/*
 * Reads and writes: call the file system with a kiocb, direct or buffered, and
 * handle its result.
 */
#include <linux/blkdev.h>
#include <linux/fs.h>
#include <linux/sizes.h>

#include "chunk.h"
#include "image.h"
#include "io.h"
#include "lane.h"
#include "rules.h"

/**
 * floop_rw_pos() - the position of the rest of an I/O in the file
 * @io: the I/O
 *
 * Context: Any.
 * Return: the position in bytes.
 */
loff_t floop_rw_pos(struct floop_io *io)
{
	return io->image->offset +
	       ((loff_t)io->bio->bi_iter.bi_sector << SECTOR_SHIFT) + io->done;
}

/**
 * floop_rw_sector() - the first sector of the rest of an I/O
 * @io: the I/O
 *
 * Context: Any.
 * Return: the sector in the file.
 */
sector_t floop_rw_sector(struct floop_io *io)
{
	return floop_rw_pos(io) >> SECTOR_SHIFT;
}

/**
 * floop_rw_sector_end() - the first sector behind an I/O
 * @io: the I/O
 *
 * Context: Any.
 * Return: the sector in the file.
 */
sector_t floop_rw_sector_end(struct floop_io *io)
{
	return (io->image->offset >> SECTOR_SHIFT) + bio_end_sector(io->bio);
}

/**
 * floop_rw_iter() - the memory of the rest of an I/O
 * @io: a read or a write
 * @iter: set to it; uses the bio's own vectors
 *
 * Context: Any.
 */
void floop_rw_iter(struct floop_io *io, struct iov_iter *iter)
{
	bool write = bio_op(io->bio) == REQ_OP_WRITE;
	struct bvec_iter start = io->bio->bi_iter;
	const struct bio_vec *first;
	unsigned int nr, skip;
	size_t bytes;	/* with all of the last vector: more than a bio has */

	if (io->done)
		bio_advance_iter(io->bio, &start, io->done);
	first = &io->bio->bi_io_vec[start.bi_idx];
	/* bi_vcnt isn't set in a clone. */
	skip = mp_bvec_iter_offset(io->bio->bi_io_vec, start) -
	       first->bv_offset;
	bytes = first->bv_len - skip;
	for (nr = 1; bytes < start.bi_size; nr++)
		bytes += first[nr].bv_len;
	iov_iter_bvec(iter, write ? ITER_SOURCE : ITER_DEST, first, nr,
		      start.bi_size);
	iter->iov_offset = skip;
}

/*
 * Freeze protection, as every writer of the image's file system holds it. The
 * completion releases it, maybe in another task; tell lockdep, as AIO does.
 */
static bool freeze_protect(struct floop_io *io, bool wait)
{
	struct super_block *sb = file_inode(io->image->file)->i_sb;

	if (io->image->is_bdev)
		return true;
	if (wait) {
		kiocb_start_write(&io->iocb);
	} else {
		if (!sb_start_write_trylock(sb))
			return false;
		__sb_writers_release(sb, SB_FREEZE_WRITE);
	}
	io->flags |= FLOOP_IO_FREEZE_HELD;
	return true;
}

static void freeze_unprotect(struct floop_io *io)
{
	if (!(io->flags & FLOOP_IO_FREEZE_HELD))
		return;
	io->flags &= ~FLOOP_IO_FREEZE_HELD;
	kiocb_end_write(&io->iocb);
}

/*
 * Did the file system refuse to wait? Some return -EOPNOTSUPP if they would
 * have to fall back to buffered I/O.
 */
static bool would_wait(struct floop_io *io, long result)
{
	return (io->iocb.ki_flags & IOCB_NOWAIT) &&
	       (result == -EAGAIN || result == -EOPNOTSUPP);
}

/*
 * Is a write with IOCB_DSYNC durable when it is done? On a file system that has
 * become read-only its fsync does nothing (ext4_sync_file()).
 */
static bool dsync_is_durable(struct floop_image *image)
{
	return image->dsync && (image->is_bdev ||
				!sb_rdonly(file_inode(image->file)->i_sb));
}

/**
 * floop_rw_end() - handle the result of the file system
 * @io: a read or a write
 * @result: bytes that are done, or a negative errno
 * @batch: where to leave the bio if it is done, or NULL to complete it here
 *
 * Queues the rest of a short I/O. If nothing at all was done, the image ends
 * here, which is an error. A refused direct I/O is done again through the
 * bounce buffer: it may be the submitter's memory that the disk can't take. If
 * that is refused, too, it is done again when no direct I/O is left. A merged
 * write fails, and its parts are done again.
 *
 * Context: Any, interrupts included.
 */
void floop_rw_end(struct floop_io *io, long result, struct bio_list *batch)
{
	bool write = bio_op(io->bio) == REQ_OP_WRITE;

	freeze_unprotect(io);
	floop_chunk_leave(io);
	/* Others may write to the rest of the hole by then: no second try. */
	if (unlikely(io->flags & FLOOP_IO_AHEAD) &&
	    result != (long)io->bio->bi_iter.bi_size)
		result = result < 0 ? result : -EIO;
	if (unlikely(result <= 0)) {
		if (would_wait(io, result)) {
			floop_worker_requeue(io);
			return;
		}
		if (floop_direct_is_refusal(io->image, result) &&
		    !(io->flags & FLOOP_IO_MERGED)) {
			if (!(io->flags & FLOOP_IO_BOUNCE)) {
				io->flags |= FLOOP_IO_BOUNCE;
				floop_worker_requeue(io);
				return;
			}
			floop_direct_refused(io);
			return;
		}
		floop_io_end(io, result ? floop_io_status(result) :
					  BLK_STS_IOERR, batch);
		return;
	}

	io->done += result;
	if (unlikely(io->done < io->bio->bi_iter.bi_size)) {
		floop_worker_requeue(io);
		return;
	}
	if (write && (io->bio->bi_opf & REQ_FUA)) {
		if (!dsync_is_durable(io->image) ||
		    io->flags & FLOOP_IO_FLUSH_AFTER) {
			io->flags |= FLOOP_IO_WRITTEN;
			floop_lane_flush(io);
			return;
		}
		io->flags |= FLOOP_IO_DURABLE;
	}
	floop_io_end(io, BLK_STS_OK, batch);
}

static void rw_complete(struct kiocb *iocb, long result)
{
	struct floop_io *io = container_of(iocb, struct floop_io, iocb);

	io->result = result;
	if (atomic_dec_and_test(&io->refs))
		floop_rw_end(io, result, NULL);
}

/**
 * floop_rw() - read or write
 * @io: the I/O, or the rest of one
 * @wait: it may block
 * @batch: where to leave the bio if it is done at once, or NULL
 *
 * Context: A worker of the image, in its reclaim scope, as the submitter.
 * Return: always %FLOOP_RW_DONE with @wait; after any other result the caller
 * serves the I/O where it may wait.
 */
enum floop_rw_result floop_rw(struct floop_io *io, bool wait,
			      struct bio_list *batch)
{
	struct floop_image *image = io->image;
	struct file *file = image->file;
	struct kiocb *iocb = &io->iocb;
	bool write = bio_op(io->bio) == REQ_OP_WRITE;
	bool is_chunk = io->flags & FLOOP_IO_AHEAD;
	struct iov_iter iter;
	ssize_t ret;
	int side;

	floop_rw_iter(io, &iter);
	*iocb = (struct kiocb) {
		.ki_filp = file,
		.ki_pos = floop_rw_pos(io),
		.ki_ioprio = io->bio->bi_ioprio,
		.ki_flags = wait ? 0 : IOCB_NOWAIT,
	};

	if (write) {
		/*
		 * Don't extend an image that was truncated under us: the gap
		 * before this write would read as zeroes.
		 */
		if (unlikely(iocb->ki_pos + iov_iter_count(&iter) >
			     i_size_read(file->f_mapping->host))) {
			floop_io_end(io, BLK_STS_IOERR, batch);
			return FLOOP_RW_DONE;
		}
		iocb->ki_flags |= IOCB_WRITE;
		if ((io->bio->bi_opf & REQ_FUA) && image->dsync)
			iocb->ki_flags |= IOCB_DSYNC;
		/* It may be remounted read-only during the call. */
		if (!dsync_is_durable(image))
			io->flags |= FLOOP_IO_FLUSH_AFTER;
	}

	if (write && !floop_chunk_enter(io))
		return FLOOP_RW_DONE;
	if (write && !floop_shared_write_begin(io, wait && !is_chunk)) {
		if (is_chunk)
			goto end_chunk;
		floop_chunk_leave(io);
		return FLOOP_RW_WRITER_ONLY;
	}

	/* File systems expect no more; the rest follows. */
	if (unlikely(iov_iter_count(&iter) > MAX_RW_COUNT))
		iov_iter_truncate(&iter, rounddown(MAX_RW_COUNT,
						   image->rules.align));
	if (floop_window_is_open(FLOOP_WINDOW_SHORT))
		iov_iter_truncate(&iter, max_t(size_t, image->rules.align,
					       SZ_4K));

	if (image->direct) {
		if (unlikely(iov_iter_alignment(&iter) &
			     image->rules.mem_mask) ||
		    unlikely(io->flags & FLOOP_IO_BOUNCE) ||
		    floop_window_is_open(FLOOP_WINDOW_BOUNCE)) {
			if (!wait) {
				floop_chunk_leave(io);
				return FLOOP_RW_WRITER_ONLY;
			}
			/* That would wait for a thaw. */
			if (is_chunk)
				goto end_chunk;
			floop_bounce(io);
			return FLOOP_RW_DONE;
		}
		iocb->ki_flags |= IOCB_DIRECT;
		iocb->ki_complete = rw_complete;
		atomic_set(&io->refs, 2);
	}

	/*
	 * Only the writer waits for a frozen file system; a chunk holds up
	 * openers, who may be about to thaw it.
	 */
	if (write && !freeze_protect(io, wait && !is_chunk)) {
		if (is_chunk)
			goto end_chunk;
		floop_chunk_leave(io);
		return FLOOP_RW_WRITER_ONLY;
	}

	side = floop_calls_begin(image, write ? WRITE : READ,
				 wait && !is_chunk);
	if (side < 0) {
		freeze_unprotect(io);
		if (is_chunk)
			goto end_chunk;
		floop_chunk_leave(io);
		return FLOOP_RW_WRITER_ONLY;
	}
	if (write) {
		floop_window(FLOOP_WINDOW_WRITE);
		ret = file->f_op->write_iter(iocb, &iter);
	} else {
		ret = file->f_op->read_iter(iocb, &iter);
	}
	floop_calls_end(image, write ? WRITE : READ, side);

	/*
	 * The file system may access the iocb and the bio's vectors until it
	 * returns, even after the completion.
	 */
	if (ret == -EIOCBQUEUED) {
		if (atomic_dec_and_test(&io->refs))
			floop_rw_end(io, io->result, batch);
		return FLOOP_RW_DONE;
	}
	if (would_wait(io, ret)) {
		freeze_unprotect(io);
		floop_chunk_leave(io);
		return FLOOP_RW_WOULD_WAIT;
	}
	floop_rw_end(io, ret, batch);
	return FLOOP_RW_DONE;

end_chunk:
	floop_io_end(io, BLK_STS_AGAIN, batch);
	return FLOOP_RW_DONE;
}
