// SPDX-License-Identifier: GPL-2.0
/*
 * Writes that are next to each other become one call to the file system. The
 * page cache of the device itself writes back page by page (dd, mkfs), and a
 * bio-based device has no requests for the block layer to merge them into.
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
#include "trace.h"

/*
 * More would gain little, and a direct write that the disk has to split can't be
 * tried without waiting. The vectors take memory; one may be as large as a huge
 * page, so their number says nothing of the bytes.
 */
#define MOST_VECS	64U
#define MOST_BYTES	SZ_256K

/**
 * struct join - a bio of the memory of several
 * @bio: in their place
 * @parts: their struct floop_io, by rising sector
 * @vecs: their memory
 */
struct join {
	struct bio bio;
	struct llist_node *parts;
	struct bio_vec vecs[];
};

static bool may_join(struct floop_io *io)
{
	return bio_op(io->bio) == REQ_OP_WRITE &&
	       !(io->bio->bi_opf & (REQ_FUA | REQ_PREFLUSH)) &&
	       !(io->flags & FLOOP_IO_ALONE) && !io->done;
}

static bool follows(struct bio *bio, struct bio *next)
{
	return bio_end_sector(bio) == next->bi_iter.bi_sector &&
	       bio->bi_opf == next->bi_opf &&
	       bio->bi_ioprio == next->bi_ioprio &&
	       bio_blkcg_css(bio) == bio_blkcg_css(next);
}

/* How many vectors it is, and which is the last. */
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

/* A disk that takes whole pages only (NVMe) would have to split it elsewhere. */
static bool has_gap(const struct bio_vec *vec, struct bio *bio)
{
	struct bio_vec next = mp_bvec_iter_bvec(bio->bi_io_vec, bio->bi_iter);

	return !goes_on(vec, &next) &&
	       !(PAGE_ALIGNED(vec->bv_offset + vec->bv_len) &&
		 PAGE_ALIGNED(next.bv_offset));
}

/*
 * What has failed together is tried again one by one: an error belongs to the
 * write that it befell, and the others may well succeed.
 */
static void join_end(struct bio *bio)
{
	struct join *join = container_of(bio, struct join, bio);
	struct llist_node *node = join->parts;
	bool done = bio->bi_status == BLK_STS_OK;

	bio_uninit(bio);
	kfree(join);
	while (node) {
		struct floop_io *io = llist_entry(node, struct floop_io, node);

		node = node->next;
		if (done) {
			floop_io_end(io, BLK_STS_OK, NULL);
		} else {
			io->flags |= FLOOP_IO_ALONE;
			floop_worker_requeue(io);
		}
	}
}

static void add_vec(struct join *join, const struct bio_vec *vec)
{
	struct bio_vec *end = &join->vecs[join->bio.bi_vcnt];

	if (join->bio.bi_vcnt && goes_on(end - 1, vec)) {
		end[-1].bv_len += vec->bv_len;
		return;
	}
	*end = *vec;
	join->bio.bi_vcnt++;
}

static struct join *join_make(struct llist_node *parts, unsigned int nr)
{
	struct bio *first = llist_entry(parts, struct floop_io, node)->bio;
	struct floop_io *io;
	struct join *join;

	join = kmalloc(struct_size(join, vecs, nr), GFP_NOWAIT | __GFP_NOWARN);
	if (!join)
		return NULL;
	join->parts = parts;
	bio_init(&join->bio, first->bi_bdev, join->vecs, nr, first->bi_opf);
	bio_clone_blkg_association(&join->bio, first);
	join->bio.bi_ioprio = first->bi_ioprio;
	join->bio.bi_iter.bi_sector = first->bi_iter.bi_sector;
	join->bio.bi_end_io = join_end;
	llist_for_each_entry(io, parts, node) {
		struct bvec_iter iter;
		struct bio_vec vec;

		bio_for_each_bvec(vec, io->bio, iter)
			add_vec(join, &vec);
		join->bio.bi_iter.bi_size += io->bio->bi_iter.bi_size;
	}
	return join;
}

/**
 * floop_merge() - make one I/O of a write and of those that go on where it ends
 * @io: the first
 * @next: what is in the lane behind it; what has become a part is taken off
 *
 * It ends when the one does that is returned, each part for itself.
 *
 * Context: A worker of the image. Doesn't sleep.
 * Return: the I/O to handle: @io itself if nothing goes on there, or if there is
 * no memory to join it.
 */
struct floop_io *floop_merge(struct floop_io *io, struct llist_node **next)
{
	struct floop_io *last = io, *joined;
	struct floop_image *image = io->image;
	struct llist_node *node;
	struct bio_vec end;
	struct join *join;
	unsigned int nr = 0;
	size_t bytes;

	if (!*next || !may_join(io))
		return io;
	bytes = io->bio->bi_iter.bi_size;
	for (node = *next; node; node = node->next) {
		struct floop_io *other = llist_entry(node, struct floop_io,
						     node);
		unsigned int more;

		if (!may_join(other) || !follows(last->bio, other->bio))
			break;
		bytes += other->bio->bi_iter.bi_size;
		if (bytes > MOST_BYTES)
			break;
		if (last == io)
			nr = count_vecs(io->bio, &end);
		if (has_gap(&end, other->bio))
			break;
		more = count_vecs(other->bio, &end);
		if (nr + more > MOST_VECS)
			break;
		nr += more;
		last = other;
	}
	if (last == io)
		return io;

	joined = mempool_alloc(&image->ios, GFP_NOWAIT | __GFP_NOWARN);
	if (!joined)
		return io;
	last->node.next = NULL;
	join = join_make(&io->node, nr);
	if (!join) {
		last->node.next = node;
		mempool_free(joined, &image->ios);
		return io;
	}
	*next = node;
	*joined = (struct floop_io) {
		.bio = &join->bio,
		.image = image,
		.flags = FLOOP_IO_ALONE | FLOOP_IO_JOINED,
	};
	percpu_ref_get(&image->dev->disk->queue->q_usage_counter);
	trace_floop_io_join(image, &join->bio);
	return joined;
}
