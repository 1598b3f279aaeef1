// SPDX-License-Identifier: GPL-2.0
/* Operations that allocate, free, read, write and cache. */
#include <linux/falloc.h>
#include <linux/fs.h>
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

#include "adversary.h"

#ifndef FALLOC_FL_WRITE_ZEROES
#define FALLOC_FL_WRITE_ZEROES 0x80
#endif

struct space_resv {
	int16_t type, whence;
	int64_t start, len;
	int32_t sysid;
	uint32_t pid;
	int32_t pad[4];
};

#define RESVSP		_IOW('X', 40, struct space_resv)
#define UNRESVSP	_IOW('X', 42, struct space_resv)
#define ZERO_RANGE	_IOW('X', 57, struct space_resv)

/* What is allocated or shared is so no more or again, and reads the same. */
static int op_alloc(struct adversary *a, int fd)
{
	int mode = FALLOC_FL_KEEP_SIZE;
	uint64_t pos = 0;
	size_t len = place.size;

	if (below(&a->r, 2))
		pick_between(a, 0, place.prot, &pos, &len);
	if (!below(&a->r, 3))
		mode = FALLOC_FL_UNSHARE_RANGE | FALLOC_FL_KEEP_SIZE;
	return ret(fallocate(fd, mode, (off_t)pos, (off_t)len));
}

static int op_hole(struct adversary *a, int fd)
{
	static const int modes[] = {
		FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
		FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE,
		FALLOC_FL_WRITE_ZEROES, FALLOC_FL_KEEP_SIZE,
		FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
	};
	uint64_t pos;
	size_t len;

	pick_between(a, place.prot, place.cut, &pos, &len);
	return ret(fallocate(fd, modes[below(&a->r, 5)], (off_t)pos,
			     (off_t)len));
}

static int op_resv(struct adversary *a, int fd)
{
	static const unsigned long cmds[] = { RESVSP, UNRESVSP, ZERO_RANGE };
	struct space_resv arg = { .whence = SEEK_SET };
	uint64_t pos;
	size_t len;

	pick_between(a, place.prot, place.cut, &pos, &len);
	arg.start = (int64_t)pos;
	arg.len = (int64_t)len;
	return ret(ioctl(fd, cmds[below(&a->r, 3)], &arg));
}

/* Behind the device's end only, and never down to it */
static int op_shift(struct adversary *a, int fd)
{
	int mode = below(&a->r, 2) ? FALLOC_FL_COLLAPSE_RANGE :
				     FALLOC_FL_INSERT_RANGE;
	uint64_t pos;
	size_t len;
	int err;

	pick_between(a, place.size, place.size + TAIL / 4, &pos, &len);
	arena->cutting++;
	err = ret(fallocate(fd, mode, (off_t)pos, (off_t)len));
	arena->cuts++;
	arena->cutting--;
	return err;
}

/*
 * The image's end comes and goes. Whoever has cut it makes it long again, in
 * the way that was granted to him: an overlay grants by an older mode what the
 * image's own name refuses.
 */
static void make_long(int fd, const char *path)
{
	off_t size = (off_t)(place.size + TAIL);
	int i;

	for (i = 0; i < 2000; i++) {
		if (!(path ? truncate(path, size) : ftruncate(fd, size)))
			return;
		usleep(1000);
	}
	fail("%s can't be made long again: %s", path ? path : "the image",
	     strerror(errno));
}

static off_t cut_at(struct adversary *a)
{
	uint64_t blocks = (place.cached - place.cut) / BLOCK;

	if (below(&a->r, 3))
		return (off_t)(place.cut + BLOCK * below(&a->r, blocks));
	/* Not at a block's end: the rest of the block is zeroed. */
	return (off_t)(place.cached +
		       8 * below(&a->r, (place.size - place.cached) / 8));
}

static int cut(struct adversary *a, int fd, const char *path)
{
	off_t to;
	int err;

	to = cut_at(a);
	if (path)
		names_take();
	arena->cutting++;
	err = ret(path ? truncate(path, to) : ftruncate(fd, to));
	if (!err) {
		linger(a);
		make_long(fd, path);
	}
	arena->cuts++;
	arena->cutting--;
	if (path)
		names_let_go();
	return err;
}

static int op_ftruncate(struct adversary *a, int fd)
{
	return cut(a, fd, NULL);
}

/* By a path that is the descriptor itself */
static int op_truncate_fd(struct adversary *a, int fd)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return cut(a, fd, path);
}

static int op_truncate(struct adversary *a, int fd)
{
	return cut(a, fd, below(&a->r, 2) ? image : home_image);
}

/* Nobody but writers of the page cache writes behind cached. */

static void pick_cached(struct adversary *a, uint64_t *pos, size_t *len)
{
	*pos = place.cached + 8 * below(&a->r, (place.size - place.cached -
						BLOCK) / 8);
	*len = 8 * (1 + below(&a->r, BLOCK / 8));
	memset(a->buf, 0, BLOCK);
}

/* Zeroes, at any place: a stamp's first word would not be at its place. */
static int op_write(struct adversary *a, int fd)
{
	struct iovec iov = { a->buf, BLOCK };
	uint64_t pos;
	size_t len;

	if (below(&a->r, 2)) {
		pick_cached(a, &pos, &len);
		iov.iov_len = len;
	} else {
		pick_between(a, place.cached, place.size, &pos, &len);
		stamp(a->buf, BLOCK, DONATED, pos / SECTOR, rnd(&a->r));
	}
	/* Direct writes would collide with others' dirty pages. */
	if (a->d->direct && is_counted(a->d))
		return NOT_TRIED;
	return ret(pwritev2(fd, &iov, 1, (off_t)pos,
			    below(&a->r, 3) ? 0 : RWF_DSYNC));
}

static int op_write_direct(struct adversary *a, int fd)
{
	uint64_t pos;
	size_t len;

	if (!a->d->direct && is_counted(a->d))
		return NOT_TRIED;
	pick_between(a, place.prot, place.cut, &pos, &len);
	stamp(a->buf, len, DONATED, pos / SECTOR, rnd(&a->r));
	return ret(pwrite(fd, a->buf, len, (off_t)pos));
}

/* Copied by the kernel: a cut is EFAULT then, and not SIGBUS. */
static int op_mmap(struct adversary *a, int fd)
{
	int from = own_file(a, "stamps", 0), err = 0;
	uint64_t pos;
	size_t len;
	void *map;

	pick_between(a, place.cached, place.size, &pos, &len);
	map = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		   (off_t)pos);
	if (map == MAP_FAILED)
		return ret_close(from, -1);
	stamp(a->buf, len, DONATED, pos / SECTOR, rnd(&a->r));
	full_write(from, a->buf, len, 0, "stamps");
	err = ret(pread(from, map, len, 0));
	if (below(&a->r, 2))
		msync(map, len, MS_SYNC);
	if (below(&a->r, 2))
		madvise(map, len, MADV_DONTNEED);
	munmap(map, len);
	close(from);
	return err;
}

static int op_splice(struct adversary *a, int fd)
{
	struct iovec iov = { a->buf, BLOCK };
	off_t to = (off_t)(place.cached + BLOCK *
			   below(&a->r, (place.size - place.cached) / BLOCK));
	int pipes[2], err;

	/* It takes no O_DIRECT away. */
	if (a->d->direct && is_counted(a->d))
		return NOT_TRIED;
	if (pipe2(pipes, O_CLOEXEC | O_NONBLOCK))
		fail("pipe: %s", strerror(errno));
	stamp(a->buf, BLOCK, DONATED, (uint64_t)to / SECTOR, rnd(&a->r));
	err = vmsplice(pipes[1], &iov, 1, 0) < 0 ? -errno : 0;
	if (!err)
		err = ret(splice(pipes[0], NULL, fd, &to, BLOCK, 0));
	close(pipes[0]);
	close(pipes[1]);
	return err;
}

static int op_sendfile(struct adversary *a, int fd)
{
	int copy = own_file(a, "copy", O_TRUNC);
	off_t from = (off_t)(BLOCK * below(&a->r, place.prot / BLOCK));
	int err = ret(sendfile(copy, fd, &from, 16 * BLOCK));

	copy_end(copy);
	return err;
}

/* The content that the image's readers find */

static int read_once(struct adversary *a, int fd, int how, uint64_t pos,
		     size_t len)
{
	void *map;
	ssize_t n;

	switch (how) {
	case 0:
		n = pread(fd, a->other, len, (off_t)pos);
		break;
	case 1:
		map = mmap(NULL, len, PROT_READ, MAP_SHARED, fd, (off_t)pos);
		if (map == MAP_FAILED)
			return -errno;
		/* It goes on changing. */
		memcpy(a->other, map, len);
		munmap(map, len);
		return 0;
	default:
		n = ring_do(a, IORING_OP_READ, pos, a->other, (uint32_t)len, 0);
		if (n < 0)
			errno = (int)-n;
	}
	if (n >= 0 && n != (ssize_t)len)
		fail("read of the file: cut short");
	return ret(n);
}

int read_and_check(struct adversary *a, int fd, int how)
{
	static const char * const hows[] = {
		"read of the file", "mapped file", "read by io_uring",
	};
	uint32_t from[32 * BLOCK / SECTOR];
	uint64_t pos;
	size_t len;
	int n, err;

	pick_between(a, 0, place.prot, &pos, &len);
	sample(from, arena->done, pos, len);
	for (n = 0; n < 3; n++) {
		err = read_once(a, fd, how, pos, len);
		if (err)
			return err;
		if (a->d->lower)
			return 0;
		if (!check_file(hows[how], a->other, pos, len, from,
				arena->issued, n == 2))
			return 0;
		arena->stale++;
		/* I/O in flight has landed then. */
		usleep(300000);
	}
	return 0;
}

static int op_read(struct adversary *a, int fd)
{
	return read_and_check(a, fd, 0);
}

static int op_mmap_read(struct adversary *a, int fd)
{
	return read_and_check(a, fd, 1);
}

/* The page cache */

static int op_advise(struct adversary *a, int fd)
{
	static const int advice[] = {
		POSIX_FADV_WILLNEED, POSIX_FADV_DONTNEED, POSIX_FADV_WILLNEED,
		POSIX_FADV_SEQUENTIAL, POSIX_FADV_RANDOM, POSIX_FADV_NOREUSE,
	};
	uint64_t pos;
	size_t len;
	int err;

	pick_between(a, 0, place.size, &pos, &len);
	err = posix_fadvise(fd, (off_t)pos, (off_t)len,
			    advice[below(&a->r, 6)]);
	return -err;
}

static int op_readahead(struct adversary *a, int fd)
{
	uint64_t pos;
	size_t len;

	pick_between(a, 0, place.size, &pos, &len);
	return ret(readahead(fd, (off_t)pos, len));
}

static int op_sync(struct adversary *a, int fd)
{
	uint64_t pos;
	size_t len;

	switch (below(&a->r, 8)) {
	case 0:
		return ret(syncfs(fd));
	case 1: case 2:
		return ret(fsync(fd));
	case 3: case 4:
		return ret(fdatasync(fd));
	default:
		pick_between(a, 0, place.size, &pos, &len);
		return ret(sync_file_range(fd, (off_t)pos, (off_t)len,
					   SYNC_FILE_RANGE_WAIT_BEFORE |
					   SYNC_FILE_RANGE_WRITE |
					   SYNC_FILE_RANGE_WAIT_AFTER));
	}
}

const struct op space_ops[] = {
	{ "alloc", op_alloc, 5, 0, false },
	{ "hole", op_hole, 6, 0, false },
	{ "resv", op_resv, 3, 0, false },
	{ "shift", op_shift, 3, 0, false },
	{ "ftruncate", op_ftruncate, 5, 0, true },
	{ "truncate-fd", op_truncate_fd, 5, 0, true },
	{ "truncate", op_truncate, 4, 0, true },
	{ "write", op_write, 5, 0, false },
	{ "write-direct", op_write_direct, 4, 0, false },
	{ "mmap", op_mmap, 4, 0, false },
	{ "splice", op_splice, 3, 0, false },
	{ "sendfile", op_sendfile, 2, 0, false },
	{ "read", op_read, 8, 0, false },
	{ "mmap-read", op_mmap_read, 4, 0, false },
	{ "advise", op_advise, 8, 0, false },
	{ "readahead", op_readahead, 4, 0, false },
	{ "sync", op_sync, 3, 0, false },
	{},
};
