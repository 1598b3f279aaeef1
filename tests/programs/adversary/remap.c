// SPDX-License-Identifier: GPL-2.0
/*
 * Operations that give the image other blocks: those of the protected range
 * keep their content.
 */
#include <linux/fs.h>
#include <sys/statfs.h>
#include <sys/uio.h>

#include "../swapext.h"
#include "adversary.h"

#ifndef RWF_ATOMIC
#define RWF_ATOMIC 0x40
#endif

int own_file(struct adversary *a, const char *name, int flags)
{
	char path[320];
	int fd;

	snprintf(path, sizeof(path), "%s/%s.%u", home, name, a->id);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | flags, 0600);
	if (fd < 0)
		fail("%s: %s", path, strerror(errno));
	return fd;
}

void donor_begin(struct adversary *a)
{
	a->donor.fd = own_file(a, "donor", O_DIRECT);
	a->donor.owner = a->name;
	a->donor.file = 1000 + a->id;
	donor_write(&a->donor, a->buf, 0, DONOR_BLOCKS);
	fsync(a->donor.fd);
}

void chunk_take(uint32_t chunk)
{
	while (atomic_exchange(&arena->taken[chunk], 1))
		usleep(200);
}

void chunk_let_go(uint32_t chunk)
{
	arena->taken[chunk] = 0;
}

void known(void *buf, uint64_t pos, size_t len)
{
	size_t at;

	for (at = 0; at < len; at += SECTOR) {
		uint64_t s = (pos + at) / SECTOR;
		uint32_t gen = arena->done[s];

		if (gen & 1)
			memset((char *)buf + at, 0, SECTOR);
		else
			stamp_one((char *)buf + at, PROTECTED, s, gen);
	}
}

/* Some time for I/O in flight to land */
void linger(struct adversary *a)
{
	if (!below(&a->r, 4))
		usleep((useconds_t)below(&a->r, 3000));
}

uint32_t pick(struct adversary *a, uint64_t *pos, size_t *len)
{
	uint32_t chunk = (uint32_t)below(&a->r, place.prot / CHUNK);
	uint64_t blocks = 1 + below(&a->r, CHUNK / BLOCK);

	*pos = (uint64_t)chunk * CHUNK +
	       BLOCK * below(&a->r, CHUNK / BLOCK - blocks + 1);
	*len = blocks * BLOCK;
	return chunk;
}

void pick_between(struct adversary *a, uint64_t from, uint64_t to,
		  uint64_t *pos, size_t *len)
{
	uint64_t blocks = 1 + below(&a->r, 32);

	if (blocks > (to - from) / BLOCK)
		blocks = (to - from) / BLOCK;
	*pos = from + BLOCK * below(&a->r, (to - from) / BLOCK - blocks + 1);
	*len = blocks * BLOCK;
}

/* The donor by a path of the same mount as the image's */
static int donor_fd(struct adversary *a)
{
	char path[64];

	if (a->d->how != OVERLAY)
		return dup(a->donor.fd);
	snprintf(path, sizeof(path), "/mnt/m0/donor.%u", a->id);
	return open(path, O_RDWR | O_DIRECT | O_CLOEXEC);
}

/* What the blocks of the donor are exchanged or shared with */
struct part {
	uint32_t chunk, at, nr;
	uint64_t pos;
	size_t len;
	int donor;
	bool is_vain;	/* will be refused: nothing is prepared for it */
};

#define BIT(access)	(1U << (access))
#define TO_READ		(BIT(RDONLY) | BIT(RDWR))
#define TO_WRITE	(BIT(WRONLY) | BIT(RDWR))
#define TO_ANY		(TO_READ | TO_WRITE | BIT(NEITHER))

/* @modes: with the others it can't but be refused. */
static int part_begin(struct adversary *a, struct part *p, unsigned int modes)
{
	p->is_vain = !(modes & BIT(a->d->access));
	p->donor = donor_fd(a);
	if (p->donor < 0)
		return -errno;
	p->chunk = pick(a, &p->pos, &p->len);
	p->nr = (uint32_t)(p->len / BLOCK);
	p->at = (uint32_t)below(&a->r, DONOR_BLOCKS - p->nr + 1);
	return 0;
}

/* The donor's part gets what the image has there, and nobody changes that. */
static int part_begin_same(struct adversary *a, struct part *p,
			   unsigned int modes)
{
	int err = part_begin(a, p, modes);

	if (err || p->is_vain)
		return err;
	donor_check(&a->donor, a->buf, p->at, p->nr);
	chunk_take(p->chunk);
	known(a->buf, p->pos, p->len);
	full_write(a->donor.fd, a->buf, p->len, (uint64_t)p->at * BLOCK,
		   "a donor");
	return 0;
}

static void part_let_go(struct part *p)
{
	if (!p->is_vain)
		chunk_let_go(p->chunk);
}

/* The donor is its owner's again, with the blocks that it has got. */
static int part_end(struct adversary *a, struct part *p, int err)
{
	close(p->donor);
	if (p->is_vain)
		return err;
	donor_write(&a->donor, a->buf, p->at, p->nr);
	linger(a);
	donor_check(&a->donor, a->buf, p->at, p->nr);
	return err;
}

static int op_dedupe(struct adversary *a, int fd)
{
	struct part p;
	int err = part_begin_same(a, &p, TO_ANY);

	if (err)
		return err;
	err = dedupe(p.donor, (uint64_t)p.at * BLOCK, fd, p.pos, p.len);
	part_let_go(&p);
	return part_end(a, &p, err);
}

static int op_dedupe_out(struct adversary *a, int fd)
{
	struct part p;
	int err = part_begin_same(a, &p, TO_READ);

	if (err)
		return err;
	err = dedupe(fd, p.pos, p.donor, (uint64_t)p.at * BLOCK, p.len);
	part_let_go(&p);
	return part_end(a, &p, err);
}

static int op_clone(struct adversary *a, int fd)
{
	struct part p;
	int err = part_begin_same(a, &p, TO_WRITE);
	struct file_clone_range range;

	if (err)
		return err;
	range = (struct file_clone_range){ p.donor, (uint64_t)p.at * BLOCK,
					   p.len, p.pos };
	err = ret(ioctl(fd, FICLONERANGE, &range));
	part_let_go(&p);
	return part_end(a, &p, err);
}

static int op_clone_out(struct adversary *a, int fd)
{
	struct file_clone_range range;
	struct part p;
	int err = part_begin(a, &p, TO_READ);

	if (err)
		return err;
	range = (struct file_clone_range){ fd, p.pos, p.len,
					   (uint64_t)p.at * BLOCK };
	return part_end(a, &p, ret(ioctl(p.donor, FICLONERANGE, &range)));
}

/* There is little room, and others get the image's old blocks. */
void copy_end(int copy)
{
	if (ftruncate(copy, 0))
		fail("truncate of a copy: %s", strerror(errno));
	close(copy);
}

static int op_clone_all(struct adversary *a, int fd)
{
	int copy = own_file(a, "copy", O_TRUNC);
	int err = ret(ioctl(copy, FICLONE, fd));

	if (!err)
		linger(a);
	copy_end(copy);
	return err;
}

static int op_copy_out(struct adversary *a, int fd)
{
	struct part p;
	int err = part_begin(a, &p, TO_READ);
	off_t from = (off_t)p.pos, to;

	if (err)
		return err;
	to = (off_t)p.at * BLOCK;
	return part_end(a, &p, ret(copy_file_range(fd, &from, p.donor, &to,
						   p.len, 0)));
}

static int op_copy_in(struct adversary *a, int fd)
{
	int copy = own_file(a, "copy", O_TRUNC);
	off_t from = 0, to;
	uint64_t pos;
	size_t len;
	int err;

	pick_between(a, place.cached, place.size, &pos, &len);
	stamp(a->buf, len, DONATED, 0, rnd(&a->r));
	full_write(copy, a->buf, len, 0, "a copy");
	to = (off_t)pos;
	err = ret(copy_file_range(copy, &from, fd, &to, len, 0));
	copy_end(copy);
	return err;
}

static int op_exchange(struct adversary *a, int fd)
{
	struct exchange x = {};
	struct part p;
	int err = part_begin_same(a, &p, TO_WRITE);
	bool commit;

	if (err)
		return err;
	commit = below(&a->r, 2) && !ioctl(fd, XFS_START, &x);
	x.fd = p.donor;
	x.from = (uint64_t)p.at * BLOCK;
	x.to = p.pos;
	x.len = p.len;
	x.flags = 0;
	err = ret(ioctl(fd, commit ? XFS_COMMIT : XFS_EXCHANGE, &x));
	part_let_go(&p);
	return part_end(a, &p, err);
}

/* All of the image, which nobody writes to meanwhile */
static int swap_whole(struct adversary *a, int fd, int copy)
{
	struct swapext x;
	struct stat st;
	uint64_t pos;

	for (pos = 0; pos < place.size; pos += CHUNK) {
		if (pread(fd, a->buf, CHUNK, (off_t)pos) != CHUNK)
			return -EAGAIN;
		full_write(copy, a->buf, CHUNK, pos, "a copy");
	}
	if (fstat(fd, &st) || ftruncate(copy, st.st_size))
		return -errno;
	x = swapext_of(fd, &st, copy);
	return ret(ioctl(fd, XFS_SWAPEXT, &x));
}

static int op_swap(struct adversary *a, int fd)
{
	uint32_t chunks = (uint32_t)(place.prot / CHUNK), i;
	int copy, err;

	/* Whom it is refused shall not copy for it. */
	if (a->d->access != RDWR || !a->d->direct || a->d->how == OVERLAY) {
		struct swapext x = {
			.target = fd,
			.donor = a->donor.fd,
			.length = (int64_t)place.size,
		};

		return ret(ioctl(fd, XFS_SWAPEXT, &x));
	}
	copy = own_file(a, "copy", O_TRUNC | O_DIRECT);
	for (i = 0; i < chunks; i++)
		chunk_take(i);
	err = swap_whole(a, fd, copy);
	for (i = 0; i < chunks; i++)
		chunk_let_go(i);
	copy_end(copy);
	return err;
}

static int op_move(struct adversary *a, int fd)
{
	struct move_extent move = {};
	struct statfs fs;
	struct part p;
	int err = part_begin(a, &p, TO_WRITE);
	uint32_t each;

	if (err)
		return err;
	if (!p.is_vain)
		donor_check(&a->donor, a->buf, p.at, p.nr);
	if (fstatfs(a->donor.fd, &fs))
		fail("statfs: %s", strerror(errno));
	each = BLOCK / (uint32_t)fs.f_bsize;
	move.donor = (uint32_t)p.donor;
	move.orig = p.pos / BLOCK * each;
	move.to = p.at * each;
	move.len = p.nr * each;
	return part_end(a, &p, ret(ioctl(fd, MOVE_EXT, &move)));
}

/* What is there already, written again: on xfs an atomic write may remap. */
static int write_same(struct adversary *a, int fd, int flags)
{
	uint32_t chunk = (uint32_t)below(&a->r, place.prot / CHUNK);
	size_t len = BLOCK << (flags ? below(&a->r, 5) : 0);
	uint64_t pos =
		(uint64_t)chunk * CHUNK + below(&a->r, CHUNK / len) * len;
	struct iovec iov = { a->buf, len };
	int err;

	if (!a->d->direct && is_counted(a->d))
		return NOT_TRIED;
	chunk_take(chunk);
	known(a->buf, pos, len);
	err = ret(pwritev2(fd, &iov, 1, (off_t)pos, flags));
	chunk_let_go(chunk);
	return err;
}

static int op_write_same(struct adversary *a, int fd)
{
	return write_same(a, fd, 0);
}

static int op_atomic_same(struct adversary *a, int fd)
{
	return write_same(a, fd, RWF_ATOMIC);
}

static int op_atomic(struct adversary *a, int fd)
{
	size_t len = BLOCK << below(&a->r, 5);
	uint64_t pos = place.prot +
		       below(&a->r, (place.cut - place.prot) / len) * len;
	struct iovec iov = { a->buf, len };

	if (!a->d->direct && is_counted(a->d))
		return NOT_TRIED;
	stamp(a->buf, len, DONATED, pos / SECTOR, rnd(&a->r));
	return ret(pwritev2(fd, &iov, 1, (off_t)pos, RWF_ATOMIC));
}

const struct op remap_ops[] = {
	{ "dedupe", op_dedupe, 12, FS_XFS, false },
	{ "dedupe-out", op_dedupe_out, 4, FS_XFS, false },
	{ "clone", op_clone, 6, FS_XFS, false },
	{ "clone-out", op_clone_out, 4, FS_XFS, false },
	{ "clone-all", op_clone_all, 1, FS_XFS, false },
	{ "copy-out", op_copy_out, 3, 0, false },
	{ "copy-in", op_copy_in, 3, 0, false },
	{ "exchange", op_exchange, 8, FS_XFS, false },
	{ "swap", op_swap, 1, FS_XFS, false },
	{ "move", op_move, 14, FS_EXT4, false },
	{ "write-same", op_write_same, 4, 0, false },
	{ "atomic-same", op_atomic_same, 6, 0, false },
	{ "atomic", op_atomic, 4, 0, false },
	{},
};
