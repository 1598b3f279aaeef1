// SPDX-License-Identifier: GPL-2.0
/* Operations on names, locks, leases, and whatever an ioctl can be. */
#include <linux/falloc.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/io_uring.h>
#include <sys/file.h>

#include "adversary.h"

#define F_SETDELEG_ (1024 + 16)

struct delegation_ {
	uint32_t flags;
	uint16_t type, pad;
};

static int op_lease(struct adversary *a, int fd)
{
	static const int types[] = { F_RDLCK, F_WRLCK };
	struct delegation_ d = {
		.type = (uint16_t)types[below(&a->r, 2)],
	};
	bool is_deleg = !below(&a->r, 3);
	int err;

	err = ret(is_deleg ? fcntl(fd, F_SETDELEG_, &d) :
			     fcntl(fd, F_SETLEASE, d.type));
	if (err)
		return err;
	linger(a);
	d.type = F_UNLCK;
	/* Another owner of the descriptor may have released it already. */
	if ((is_deleg ? fcntl(fd, F_SETDELEG_, &d) :
			fcntl(fd, F_SETLEASE, F_UNLCK)) && errno != EAGAIN)
		fail("a lease can't be given back: %s", strerror(errno));
	return 0;
}

static int op_lock(struct adversary *a, int fd)
{
	struct flock lock = {
		.l_type = below(&a->r, 2) ? F_RDLCK : F_WRLCK,
		.l_start = (off_t)(BLOCK * below(&a->r, 100)), .l_len = BLOCK,
	};
	int err;

	if (below(&a->r, 2)) {
		err = ret(flock(fd, LOCK_NB | (below(&a->r, 2) ? LOCK_SH :
							       LOCK_EX)));
		if (!err)
			flock(fd, LOCK_UN);
		return err;
	}
	err = ret(fcntl(fd, F_OFD_SETLK, &lock));
	lock.l_type = F_UNLCK;
	if (!err)
		fcntl(fd, F_OFD_SETLK, &lock);
	return err;
}

/*
 * What else there is. Those that would shut down or freeze the file system
 * are not here, nor those that need no file of the image's.
 */
static int op_ioctl(struct adversary *a, int fd)
{
	static const unsigned long cmds[] = {
		_IOC(_IOC_READ, 'f', 3, 8),	/* EXT4_IOC_GETVERSION */
		_IOC(_IOC_READ, 'v', 1, 8),	/* FS_IOC_GETVERSION */
		_IOC(_IOC_WRITE, 'v', 2, 8),	/* FS_IOC_SETVERSION */
		_IO('f', 9),			/* EXT4_IOC_MIGRATE */
		_IO('f', 12),			/* EXT4_IOC_ALLOC_DA_BLKS */
		_IO('f', 17),			/* EXT4_IOC_SWAP_BOOT */
		_IO('f', 18),			/* EXT4_IOC_PRECACHE_EXTENTS */
		_IOC(_IOC_READ, 'f', 40, 4),	/* EXT4_IOC_CLEAR_ES_CACHE */
		_IOC(_IOC_WRITE, 'f', 43, 4),	/* EXT4_IOC_CHECKPOINT */
		_IOC(_IOC_READ, 'X', 58, 128),	/* XFS_IOC_FREE_EOFBLOCKS */
		_IOC(_IOC_READ | _IOC_WRITE, 'X', 60, 64), /* XFS_IOC_SCRUB */
		_IOC(_IOC_READ | _IOC_WRITE, 'X', 38, 32), /* XFS_GETBMAP */
		_IOC(_IOC_READ, 'X', 30, 12),	/* XFS_IOC_DIOINFO */
		FIBMAP, FIGETBSZ, FIONREAD, FS_IOC_FIEMAP, FITRIM, FIOQSIZE,
	};
	unsigned int i = (unsigned int)below(&a->r,
					     sizeof(cmds) / sizeof(*cmds));
	struct fiemap *f = (void *)a->other;

	memset(a->other, 0, BLOCK);
	if (cmds[i] == FS_IOC_FIEMAP) {
		f->fm_length = place.size;
		f->fm_extent_count = 16;
		f->fm_flags = below(&a->r, 2) ? FIEMAP_FLAG_SYNC : 0;
	}
	if (cmds[i] == FITRIM)
		((struct fstrim_range *)a->other)->len = UINT64_MAX;
	return ret(ioctl(fd, cmds[i], a->other));
}

/* To another adversary, with another's rights */
static int op_send(struct adversary *a, int fd)
{
	if (a->d->lower)
		return NOT_TRIED;
	send_fd(outboxes[below(&a->r, ADVERSARIES)], fd);
	return 0;
}

/* By the ring, with the registered file as such */
static int ring_op(struct adversary *a, int fd)
{
	uint64_t pos;
	size_t len;

	switch (below(&a->r, 6)) {
	case 0:
		return read_and_check(a, fd, 2);
	case 1:
		pick_between(a, 0, place.size, &pos, &len);
		return ring_do(a, IORING_OP_FADVISE, pos, NULL, (uint32_t)len,
			       POSIX_FADV_WILLNEED);
	case 2:
		return ring_do(a, IORING_OP_FSYNC, 0, NULL, 0,
			       IORING_FSYNC_DATASYNC);
	case 3:
		/* Its length is in addr, its mode in len. */
		pick_between(a, place.prot, place.cut, &pos, &len);
		return ring_do(a, IORING_OP_FALLOCATE, pos, (void *)len,
			       FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0);
	case 4:
		return ring_do(a, IORING_OP_FTRUNCATE, place.size + TAIL, NULL,
			       0, 0);
	default:
		if (a->d->direct)
			pick_between(a, place.prot, place.cut, &pos, &len);
		else
			pick_between(a, place.cached, place.size, &pos, &len);
		stamp(a->buf, len, DONATED, pos / SECTOR, rnd(&a->r));
		return ring_do(a, IORING_OP_WRITE, pos, a->buf, (uint32_t)len,
			       0);
	}
}

static int op_ring(struct adversary *a, int fd)
{
	int n;

	if (a->d->how != RING)
		return NOT_TRIED;
	n = ring_op(a, fd);
	return n < 0 ? n : 0;
}

/* Names: what an operation does it undoes before anybody looks. */

static void name_of(struct adversary *a, char *path, const char *what)
{
	snprintf(path, 300, "%s/%s.%u", home, what, a->id);
}

static int op_link(struct adversary *a, int fd)
{
	char path[300], from[64];
	int err;

	name_of(a, path, "link");
	snprintf(from, sizeof(from), "/proc/self/fd/%d", fd);
	err = ret(linkat(AT_FDCWD, below(&a->r, 2) ? from : image, AT_FDCWD,
			 path, AT_SYMLINK_FOLLOW));
	if (!err && unlink(path))
		fail("%s: %s", path, strerror(errno));
	return err;
}

/* Moved away, or its last name in that folder removed, and back again */
static int op_rename(struct adversary *a, int fd)
{
	char path[300];
	int err;

	(void)fd;
	name_of(a, path, "kept");
	names_take();
	if (below(&a->r, 2)) {
		err = ret(rename(home_image, path));
	} else {
		err = ret(link(image, path));
		if (!err && unlink(home_image))
			fail("%s: %s", home_image, strerror(errno));
	}
	linger(a);
	if (!err && rename(path, home_image))
		fail("%s: %s", path, strerror(errno));
	names_let_go();
	return err;
}

/* A file without a name gets the image's; what is attached is still the old. */
static int op_replace(struct adversary *a, int fd)
{
	char path[300], from[64];
	int new, err;

	(void)fd;
	name_of(a, path, "new");
	new = open(home, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (new < 0)
		return -errno;
	snprintf(from, sizeof(from), "/proc/self/fd/%d", new);
	names_take();
	full_write(new, a->buf, BLOCK, 0, "a nameless file");
	if (linkat(AT_FDCWD, from, AT_FDCWD, path, AT_SYMLINK_FOLLOW))
		fail("link of a nameless file: %s", strerror(errno));
	err = ret(renameat2(AT_FDCWD, path, AT_FDCWD, home_image,
			    RENAME_EXCHANGE));
	if (!err) {
		if (truncate(home_image, 0))
			fail("truncate of a file of one's own: %s",
			     strerror(errno));
		linger(a);
		if (renameat2(AT_FDCWD, path, AT_FDCWD, home_image,
			      RENAME_EXCHANGE))
			fail("%s: %s", path, strerror(errno));
	}
	unlink(path);
	names_let_go();
	close(new);
	return err;
}

const struct op misc_ops[] = {
	{ "lease", op_lease, 4, 0, false },
	{ "lock", op_lock, 3, 0, false },
	{ "ioctl", op_ioctl, 8, 0, false },
	{ "send", op_send, 4, 0, false },
	{ "ring", op_ring, 12, 0, false },
	{ "link", op_link, 3, 0, true },
	{ "rename", op_rename, 2, 0, true },
	{ "replace", op_replace, 2, 0, true },
	{},
};
