// SPDX-License-Identifier: GPL-2.0
/*
 * Merge adjacent writes in a lane into one call to the file system. The page
 * cache of the device itself writes back page by page (dd, mkfs), and a
 * bio-based device has no requests for the block layer to merge into.
 */
#include <linux/bio.h>
#include <linux/blk-cgroup.h>
#include <linux/blkdev.h>
#include <linux/llist.h>
#include <linux/sizes.h>
#include <linux/slab.h>

#include "device.h"
#include "image.h"
#include "io.h"
#include "lane.h"
#include "rules.h"
#include "trace.h"

/*
 * Larger writes would gain little. The vectors take memory; one may be as large
 * as a huge page, so the bytes need a bound of their own.
 */
#define MAX_VECS	256U
#define MAX_BYTES	SZ_1M

/**
 * struct merged - a write that others were merged into
 * @bio: stands for all of them
 * @parts: a list of their struct floop_io, by rising sector
 * @vecs: the memory of all of them
 */
struct merged {
	struct bio bio;
	struct llist_node *parts;
	struct bio_vec vecs[];
};

static bool may_merge(struct floop_io *io)
{
	return bio_op(io->bio) == REQ_OP_WRITE &&
	       !(io->bio->bi_opf & (REQ_FUA | REQ_PREFLUSH)) &&
	       !(io->flags & FLOOP_IO_NOMERGE) && !io->done;
}

static bool follows(struct bio *bio, struct bio *next)
{
	return bio_end_sector(bio) == next->bi_iter.bi_sector &&
	       bio->bi_opf == next->bi_opf &&
	       bio->bi_ioprio == next->bi_ioprio &&
	       bio_blkcg_css(bio) == bio_blkcg_css(next);
}

/* Count the vectors of a bio, and return the last one. */
static unsigned int count_vecs(struct bio *bio, struct bio_vec *last)
{
	struct bvec_iter iter;
	unsigned int nr = 0;

	bio_for_each_bvec(*last, bio, iter)
		nr++;
	return nr;
}

static bool goes_on(const struct bio_vec *vec, const struct bio_vec *next)
{
	return vec->bv_page == next->bv_page &&
	       vec->bv_offset + vec->bv_len == next->bv_offset;
}

/* A disk with a virt_boundary (NVMe) would have to split the write there. */
static bool has_gap(const struct bio_vec *vec, struct bio *bio)
{
	struct bio_vec next = mp_bvec_iter_bvec(bio->bi_io_vec, bio->bi_iter);

	return !goes_on(vec, &next) &&
	       !(PAGE_ALIGNED(vec->bv_offset + vec->bv_len) &&
		 PAGE_ALIGNED(next.bv_offset));
}

/*
 * If a merged write fails, try its parts again one by one: only one of them may
 * have the error.
 */
static void merged_end_io(struct bio *bio)
{
	struct merged *merged = container_of(bio, struct merged, bio);
	struct llist_node *node = merged->parts;
	bool done = bio->bi_status == BLK_STS_OK;

	bio_uninit(bio);
	kfree(merged);
	while (node) {
		struct floop_io *io = llist_entry(node, struct floop_io, node);

		node = node->next;
		if (done) {
			floop_io_end(io, BLK_STS_OK, NULL);
		} else {
			io->flags |= FLOOP_IO_NOMERGE;
			floop_worker_requeue(io);
		}
	}
}

static void add_vec(struct merged *merged, const struct bio_vec *vec)
{
	struct bio_vec *end = &merged->vecs[merged->bio.bi_vcnt];

	if (merged->bio.bi_vcnt && goes_on(end - 1, vec)) {
		end[-1].bv_len += vec->bv_len;
		return;
	}
	*end = *vec;
	merged->bio.bi_vcnt++;
}

static struct merged *merged_alloc(struct llist_node *parts, unsigned int nr)
{
	struct bio *first = llist_entry(parts, struct floop_io, node)->bio;
	struct floop_io *io;
	struct merged *merged;

	if (floop_window_is_open(FLOOP_WINDOW_MERGE))
		return NULL;
	merged = kmalloc(struct_size(merged, vecs, nr),
			 GFP_NOWAIT | __GFP_NOWARN);
	if (!merged)
		return NULL;
	merged->parts = parts;
	bio_init(&merged->bio, first->bi_bdev, merged->vecs, nr, first->bi_opf);
	bio_clone_blkg_association(&merged->bio, first);
	merged->bio.bi_ioprio = first->bi_ioprio;
	merged->bio.bi_iter.bi_sector = first->bi_iter.bi_sector;
	merged->bio.bi_end_io = merged_end_io;
	llist_for_each_entry(io, parts, node) {
		struct bvec_iter iter;
		struct bio_vec vec;

		bio_for_each_bvec(vec, io->bio, iter)
			add_vec(merged, &vec);
		merged->bio.bi_iter.bi_size += io->bio->bi_iter.bi_size;
	}
	return merged;
}

/**
 * floop_merge() - merge a write with those that follow it
 * @io: the first write
 * @next: the list of I/O behind it; parts of the merged write are taken off
 *
 * The parts end when the merged write ends.
 *
 * Context: A worker of the image. Doesn't sleep.
 * Return: the I/O to serve; @io itself if no write follows it, or if there is
 * no memory to merge.
 */
struct floop_io *floop_merge(struct floop_io *io, struct llist_node **next)
{
	struct floop_io *last = io, *merged_io;
	struct floop_image *image = io->image;
	struct llist_node *node;
	struct bio_vec end;
	unsigned int plain = io->flags & FLOOP_IO_PLAIN;
	struct merged *merged;
	unsigned int nr = 0;
	size_t bytes;

	if (!*next || !may_merge(io))
		return io;
	bytes = io->bio->bi_iter.bi_size;
	for (node = *next; node; node = node->next) {
		struct floop_io *other = llist_entry(node, struct floop_io,
						     node);
		unsigned int more;

		if (!may_merge(other) || !follows(last->bio, other->bio))
			break;
		bytes += other->bio->bi_iter.bi_size;
		if (bytes > MAX_BYTES)
			break;
		if (last == io)
			nr = count_vecs(io->bio, &end);
		if (has_gap(&end, other->bio))
			break;
		more = count_vecs(other->bio, &end);
		if (nr + more > MAX_VECS)
			break;
		nr += more;
		plain |= other->flags & FLOOP_IO_PLAIN;
		last = other;
	}
	if (last == io)
		return io;

	merged_io = mempool_alloc(&image->ios, GFP_NOWAIT | __GFP_NOWARN);
	if (!merged_io)
		return io;
	last->node.next = NULL;
	merged = merged_alloc(&io->node, nr);
	if (!merged) {
		last->node.next = node;
		mempool_free(merged_io, &image->ios);
		return io;
	}
	*next = node;
	*merged_io = (struct floop_io) {
		.bio = &merged->bio,
		.image = image,
		.flags = FLOOP_IO_NOMERGE | FLOOP_IO_MERGED | plain,
	};
	percpu_ref_get(&image->dev->disk->queue->q_usage_counter);
	trace_floop_io_join(image, &merged->bio);
	return merged_io;
}
