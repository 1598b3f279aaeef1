// SPDX-License-Identifier: GPL-2.0
/*
 * Operations that give the image other blocks: those of the protected range
 * keep their content.
 */
#include <linux/fs.h>
#include <sys/statfs.h>

#include "torture.h"

/*
 * ext4: blocks of the image change places with the donor's, and keep what they
 * hold.
 */
int op_move(struct hostile *h)
{
	struct move_extent move = {};
	struct statfs fs;
	uint64_t pos;
	uint32_t at, nr, each;
	size_t len;
	int fd, err;

	pick(h, &pos, &len, MOVE_MOST);
	nr = (uint32_t)(len / BLOCK);
	at = (uint32_t)below(&h->r, (DONOR_BLOCKS - nr) / grain + 1) * grain;
	donor_check(&h->donor, h->buf, at, nr);
	if (fstatfs(h->donor.fd, &fs))
		fail("statfs: %s", strerror(errno));
	each = BLOCK / (uint32_t)fs.f_bsize;
	move.donor = (uint32_t)h->donor.fd;
	move.orig = pos / BLOCK * each;
	move.to = at * each;
	move.len = nr * each;
	fd = open_image(h, O_RDWR);
	err = ret_close(fd, ioctl(fd, MOVE_EXT, &move));
	donor_write(&h->donor, h->buf, at, nr);
	linger(h);
	donor_check(&h->donor, h->buf, at, nr);
	return err;
}

static int clone_to_donor(struct hostile *h, int fd, uint64_t pos, uint32_t at,
			  uint32_t nr)
{
	struct file_clone_range range = {
		fd, pos, nr * BLOCK, (uint64_t)at * BLOCK,
	};

	return ioctl(h->donor.fd, FICLONERANGE, &range);
}

/* xfs: a clone must not change, whatever is written to the image. */
int op_clone(struct hostile *h)
{
	uint32_t from[MOVE_MOST * BLOCK / SECTOR], at, nr, i;
	uint64_t pos;
	size_t len;
	int fd, err;

	pick(h, &pos, &len, MOVE_MOST);
	nr = (uint32_t)(len / BLOCK);
	at = (uint32_t)below(&h->r, (DONOR_BLOCKS - nr) / grain + 1) * grain;
	sample(from, done, pos, len);
	fd = open_image(h, O_RDONLY);
	err = ret_close(fd, clone_to_donor(h, fd, pos, at, nr));
	if (err)
		return err;
	if (pread(h->donor.fd, h->other, len, (off_t)at * BLOCK) !=
	    (ssize_t)len)
		fail("read of the clone: %s", strerror(errno));
	for (i = 0; i < len / SECTOR; i++) {
		uint64_t s = pos / SECTOR + i;

		if (!is_right(h->other + i * SECTOR, s, from[i], issued[s],
			      false))
			fail_sector("clone", h->other + i * SECTOR, s, from[i],
				    issued[s]);
	}
	linger(h);
	if (pread(h->donor.fd, h->buf, len, (off_t)at * BLOCK) != (ssize_t)len)
		fail("read of the clone: %s", strerror(errno));
	for (i = 0; i < len / SECTOR; i++)
		if (memcmp(h->buf + i * SECTOR, h->other + i * SECTOR, SECTOR))
			fail("a clone of sector %ju of the device has changed since it was made, to %s",
			     (uintmax_t)(pos / SECTOR + i),
			     whose(h->buf + i * SECTOR));
	donor_write(&h->donor, h->buf, at, nr);
	return 0;
}

/*
 * xfs: the donor gets a share of the blocks, then the image others with the
 * same content: the shared ones are the donor's alone.
 */
int op_dedupe(struct hostile *h)
{
	uint32_t at, nr;
	uint64_t pos;
	size_t len;
	int fd, err;

	pick(h, &pos, &len, read_only ? MOVE_MOST : 8);
	nr = (uint32_t)(len / BLOCK);
	at = (uint32_t)below(&h->r, (DONOR_BLOCKS - nr) / grain + 1) * grain;
	donor_check(&h->donor, h->buf, at, nr);
	fd = open_image(h, (read_only ? O_RDONLY : O_RDWR) | O_DIRECT);
	err = clone_to_donor(h, fd, pos, at, nr) ? -errno : 0;
	if (!err) {
		if (pread(fd, h->buf, len, (off_t)pos) != (ssize_t)len)
			fail("direct read of the file: %s", strerror(errno));
		full_write(h->copy, h->buf, len, 0, "a copy");
		err = dedupe(h->copy, 0, fd, pos, len);
	}
	close(fd);
	donor_write(&h->donor, h->buf, at, nr);
	/* Shared blocks are not mapped: let the image have them alone. */
	if (ftruncate(h->copy, 0) || ftruncate(h->copy, MOVE_MOST * BLOCK))
		fail("truncate of the copy: %s", strerror(errno));
	linger(h);
	donor_check(&h->donor, h->buf, at, nr);
	return err;
}

/*
 * xfs: ranges of the image and the donor change places. The caller has to see
 * that nobody writes meanwhile.
 */
int op_exchange(struct hostile *h)
{
	struct exchange x = {};
	uint32_t chunk = (uint32_t)below(&h->r, chunks);
	uint32_t nr = 1 + (uint32_t)below(&h->r, CHUNK / BLOCK), at;
	uint64_t pos = (uint64_t)chunk * CHUNK +
		       BLOCK * below(&h->r, CHUNK / BLOCK - nr + 1);
	int fd, err;

	at = (uint32_t)below(&h->r, (DONOR_BLOCKS - nr) / grain + 1) * grain;
	donor_check(&h->donor, h->buf, at, nr);
	chunk_take(chunk);
	fd = open_image(h, O_RDWR | O_DIRECT);
	if (pread(fd, h->buf, nr * BLOCK, (off_t)pos) != (ssize_t)(nr * BLOCK))
		fail("direct read of the file: %s", strerror(errno));
	full_write(h->donor.fd, h->buf, nr * BLOCK, (uint64_t)at * BLOCK,
		   "a donor");
	x.fd = h->donor.fd;
	x.from = (uint64_t)at * BLOCK;
	x.to = pos;
	x.len = nr * BLOCK;
	err = ret_close(fd, ioctl(fd, XFS_EXCHANGE, &x));
	chunk_taken[chunk] = 0;
	donor_write(&h->donor, h->buf, at, nr);
	linger(h);
	donor_check(&h->donor, h->buf, at, nr);
	return err;
}

/* xfs: others' blocks become the image's. */
int op_clone_in(struct hostile *h)
{
	struct file_clone_range range = { h->copy, 0, 0, 0 };
	size_t len;
	uint64_t pos = pick_sacrificed(h, &len, prot);
	int fd;

	if (len > MOVE_MOST * BLOCK)
		len = MOVE_MOST * BLOCK;
	stamp(h->buf, len, DONATED, 0, rnd(&h->r));
	full_write(h->copy, h->buf, len, 0, "a copy");
	range.src_length = len;
	range.dest_offset = pos;
	fd = open_image(h, O_RDWR);
	return ret_close(fd, ioctl(fd, FICLONERANGE, &range));
}

int op_copy_range(struct hostile *h)
{
	int fd = open_image(h, O_RDWR);
	loff_t from = 0, to;
	uint64_t pos;
	size_t len;

	if (below(&h->r, 2)) {
		pick(h, &pos, &len, 16);
		from = (loff_t)pos;
		to = 0;
		return ret_close(fd, copy_file_range(fd, &from, h->copy, &to,
						     len, 0));
	}
	to = (loff_t)pick_sacrificed(h, &len, others);
	if (len > 16 * BLOCK)
		len = 16 * BLOCK;
	stamp(h->buf, len, DONATED, 0, rnd(&h->r));
	full_write(h->copy, h->buf, len, 0, "a copy");
	return ret_close(fd, copy_file_range(h->copy, &from, fd, &to, len, 0));
}
