// SPDX-License-Identifier: GPL-2.0
/*
 * Everything at once on the same few devices.
 *
 *   stress [-t SECONDS] [-s SEED] [-d DEVICES] [-p PROCESSES-OF-A-KIND]
 *		[-b BASE] [-m EPOCHS] DIR
 *
 * Processes of every kind below attach, detach, configure, open, scan, resize
 * and use the devices BASE... of the driver whose control node is $CTL, on
 * images in DIR, each without a look at what the others do. Every call may
 * fail, but only in the ways that its list has; an errno that nobody should
 * ever get ends the run. That nothing hangs is seen from all processes coming
 * to their end.
 *
 * -m: the images are mapped (the module's parameter says so), and their owner
 * does to them what ends an epoch: opens in every mode, changes of size,
 * blocks, flags and attributes, leases of its own. For a while in every three
 * seconds all of that rests, so that there are epochs to break. Each process
 * comes back after a while as somebody else: root; a user in the group of the
 * nodes, who owns the images; that user as root of a user namespace, who has no
 * more of the devices than the descriptors that a process outside hands in; and
 * root with few capabilities, CAP_LEASE not among them. Fewer than EPOCHS
 * epochs begun and broken, or a call that never succeeded, fail the run.
 */
#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/aio_abi.h>
#include <linux/capability.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#include "common.h"
#include "loopstat.h"

#define IMAGES 6
#define IMAGE_SIZE (4 << 20)

static const char *control, *dir;
static unsigned int devices = 8, base = 40;
static unsigned int which;	/* the device that open_dev() has chosen last */
static uint64_t epochs;		/* 0: not mapped */
static double begin, end;
static int broker = -1;		/* who opens devices for us; -1: nobody */
static uid_t owner = 1000;
static gid_t group;		/* of the nodes */
static struct rng r;

struct count {
	uint64_t ok, failed, by_errno[160];
};

static struct count *counts; /* one per kind of call, shared by all processes */

enum call {
	ADD,
	REMOVE,
	GET_FREE,
	OPEN,
	OPEN_EXCL,
	CONFIGURE,
	SET_FD,
	CLR_FD,
	SET_STATUS,
	GET_STATUS,
	CHANGE_FD,
	SET_CAPACITY,
	SET_DIRECT_IO,
	SET_BLOCK_SIZE,
	RRPART,
	READ,
	WRITE,
	FSYNC,
	DISCARD,
	ZEROOUT,
	FLSBUF,
	MMAP,
	TRUNCATE,
	IMAGE_WRITE,
	IMAGE_PUNCH,
	SYSFS,
	UEVENT,
	QUEUE,
	/* with -m only */
	MAPPING,
	DIRECT_READ,
	DIRECT_WRITE,
	ASYNC,
	IMAGE_R,
	IMAGE_W,
	IMAGE_RW,
	IMAGE_NEITHER,
	IMAGE_NONBLOCK,
	IMAGE_READ,
	IMAGE_MMAP,
	CUT,
	GROW,
	RESIZED,
	CHMOD,
	UTIMES,
	SETXATTR,
	CHATTR,
	SETATTR,
	LEASE,
	CLONE,
	DEDUPE,
	RENEW,
	NAMESPACE,
	NR_CALLS
};

static const char *const names[NR_CALLS] = {
	"LOOP_CTL_ADD",
	"LOOP_CTL_REMOVE",
	"LOOP_CTL_GET_FREE",
	"open",
	"open O_EXCL",
	"LOOP_CONFIGURE",
	"LOOP_SET_FD",
	"LOOP_CLR_FD",
	"LOOP_SET_STATUS64",
	"LOOP_GET_STATUS64",
	"LOOP_CHANGE_FD",
	"LOOP_SET_CAPACITY",
	"LOOP_SET_DIRECT_IO",
	"LOOP_SET_BLOCK_SIZE",
	"BLKRRPART",
	"read",
	"write",
	"fsync",
	"BLKDISCARD",
	"BLKZEROOUT",
	"BLKFLSBUF",
	"mmap",
	"truncate of the image",
	"write to the image",
	"hole in the image",
	"sysfs",
	"uevent",
	"queue attribute",
	"loop/mapping",
	"direct read",
	"direct write",
	"asynchronous I/O",
	"image, to read",
	"image, to write",
	"image, for both",
	"image, for neither",
	"image, O_NONBLOCK",
	"read of the image",
	"mmap of the image",
	"truncate, shorter",
	"truncate, longer",
	"capacity afterwards",
	"chmod",
	"utimes",
	"setxattr",
	"chattr",
	"file_setattr",
	"F_SETLEASE",
	"FICLONE",
	"FIDEDUPERANGE",
	"a new image",
	"a user namespace",
};

/* What the watcher has seen go by: at least so many of each. */
static struct {
	uint64_t begun, broken, ios_mapped, ios_file;
	int enough;
} *seen;

static int can_clone, can_set_by_path;

/* With -m: what a run can't do without, and hasn't had yet; or NULL. */
static const char *missing(void)
{
	unsigned int i;

	for (i = 0; i < NR_CALLS; i++) {
		if (i == TRUNCATE || i == SET_CAPACITY || i == NAMESPACE ||
		    ((i == CLONE || i == DEDUPE) && !can_clone) ||
		    (i == SETATTR && !can_set_by_path))
			continue;
		if (!counts[i].ok)
			return names[i];
	}
	return seen->begun < epochs ? "an epoch begun" :
	       seen->broken < epochs ? "an epoch broken" :
	       seen->ios_mapped < epochs ? "mapped I/O" : NULL;
}

/* A slow machine gets the time it takes. */
static int over(void)
{
	double now = seconds();

	if (now < end)
		return 0;
	return !epochs || seen->enough || now > end + 150;
}

/*
 * None of these makes sense from any of the calls above, whatever the others do
 * meanwhile.
 */
static const int never[] = {
	EFAULT, ENOSYS, EBADF, EDEADLK, ENOTTY, EOVERFLOW, ECHILD, ESRCH, EDOM,
	ENOTEMPTY,
};

static int note(enum call c, long ret)
{
	int e = errno;
	size_t i;

	if (ret >= 0) {
		__atomic_add_fetch(&counts[c].ok, 1, __ATOMIC_RELAXED);
		return (int)ret;
	}
	__atomic_add_fetch(&counts[c].failed, 1, __ATOMIC_RELAXED);
	if (e < 160)
		__atomic_add_fetch(&counts[c].by_errno[e], 1, __ATOMIC_RELAXED);
	/*
	 * 7.x, bio_iov_iter_align_down(): the sectors have become larger than
	 * the I/O since its size was found right.
	 */
	if (e == EFAULT &&
	    (c == READ || c == WRITE || c == DIRECT_READ || c == DIRECT_WRITE))
		return -1;
	for (i = 0; i < sizeof(never) / sizeof(*never); i++)
		if (e == never[i])
			die("%s: %s: nothing should ever give this", names[c],
			    strerror(e));
	errno = e;
	return -1;
}

/* What is done to the images may fail in any way. */
static int note_any(enum call c, long ret)
{
	__atomic_add_fetch(ret >= 0 ? &counts[c].ok : &counts[c].failed, 1,
			   __ATOMIC_RELAXED);
	if (ret < 0 && errno < 160)
		__atomic_add_fetch(&counts[c].by_errno[errno], 1,
				   __ATOMIC_RELAXED);
	return (int)ret;
}

/* With -m: may the images be disturbed just now? */
static int storm(void)
{
	return !epochs || (uint64_t)(seconds() * 10) % 30 >= 15;
}

static void rest(uint64_t us)
{
	usleep((useconds_t)(below(&r, us) * (storm() ? 1 : 30)));
}

static void wait_for_storm(void)
{
	while (!storm() && !over())
		usleep(20000);
}

struct wish {
	int flags;
	char path[124];
};

/* Somebody outside of our user namespace opens it, and hands it in. */
static int ask_broker(const char *path, int flags)
{
	struct wish wish = { .flags = flags };
	char space[CMSG_SPACE(sizeof(int))];
	struct msghdr msg = { .msg_control = space,
			      .msg_controllen = sizeof(space),
			      .msg_iovlen = 1 };
	int err = 0, fd = -1;
	struct iovec iov = { &err, sizeof(err) };
	struct cmsghdr *c;

	snprintf(wish.path, sizeof(wish.path), "%s", path);
	msg.msg_iov = &iov;
	if (send(broker, &wish, sizeof(wish), 0) != sizeof(wish) ||
	    recvmsg(broker, &msg, MSG_CMSG_CLOEXEC) != sizeof(err))
		die("the broker is gone");
	c = CMSG_FIRSTHDR(&msg);
	if (!err && c)
		memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	errno = err ?: EMFILE;
	return fd;
}

static void be_broker(int sock)
{
	char space[CMSG_SPACE(sizeof(int))];
	struct cmsghdr *c;
	struct wish wish;

	while (recv(sock, &wish, sizeof(wish), 0) == sizeof(wish)) {
		int fd = open(wish.path, wish.flags), err = fd < 0 ? errno : 0;
		struct iovec iov = { &err, sizeof(err) };
		struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

		if (fd >= 0) {
			msg.msg_control = space;
			msg.msg_controllen = sizeof(space);
			c = CMSG_FIRSTHDR(&msg);
			c->cmsg_level = SOL_SOCKET;
			c->cmsg_type = SCM_RIGHTS;
			c->cmsg_len = CMSG_LEN(sizeof(int));
			memcpy(CMSG_DATA(c), &fd, sizeof(fd));
		}
		if (sendmsg(sock, &msg, MSG_NOSIGNAL) < 0 && errno != EPIPE)
			die("broker: %s", strerror(errno));
		if (fd >= 0)
			close(fd);
	}
}

static void sys_path(char *buf, size_t size, unsigned int n, const char *name)
{
	const char *c = strrchr(control, '/') + 1;

	snprintf(buf, size, "/sys/block/%.*s%u/%s", (int)(strrchr(c, '-') - c),
		 c, base + n, name);
}

static int open_dev_n(unsigned int n, int flags)
{
	char path[124];
	int fd;

	which = n;
	snprintf(path, sizeof(path), "%.*s%u",
		 (int)(strrchr(control, '-') - control), control, base + n);
	flags |= O_CLOEXEC;
	fd = broker >= 0 ? ask_broker(path, flags) : open(path, flags);
	note(flags & O_EXCL ? OPEN_EXCL : OPEN, fd);
	if (fd < 0 && epochs)
		usleep(5000);
	return fd;
}

/*
 * With -m: which image a device is to have, and whether read-only. Most have
 * one of their own; the last ones share with the first. Those of the read-only
 * ones keep their size, so that LOOP_CHANGE_FD can succeed.
 */
static unsigned int image_of(unsigned int dev)
{
	return below(&r, 6) ? dev % IMAGES : (unsigned int)below(&r, IMAGES);
}

static int keeps_size(unsigned int image)
{
	return image % 3 == 2;
}

static int is_reader(unsigned int dev)
{
	return dev >= IMAGES || keeps_size(dev);
}

/* Read-only ones can't be opened for writing. */
static int open_dev(int flags)
{
	unsigned int n = (unsigned int)below(&r, devices);

	if (epochs && is_reader(n) && below(&r, 4))
		flags &= ~O_RDWR;
	return open_dev_n(n, flags);
}

static const char *image_path(unsigned int n)
{
	static char path[256];

	snprintf(path, sizeof(path), "%s/stress.%u", dir, n);
	return path;
}

static int open_image_n(unsigned int n, int flags)
{
	const char *path = image_path(n);
	int fd = open(path, flags | O_CLOEXEC);

	/* With -m others may have made it immutable. */
	if (fd < 0 && errno != ENFILE && errno != EMFILE && errno != ENOMEM &&
	    !(epochs && (errno == EPERM || errno == EACCES)))
		die("%s: %s", path, strerror(errno));
	return fd;
}

static int open_image(int flags)
{
	return open_image_n((unsigned int)below(&r, IMAGES), flags);
}

static void configure(void)
{
	struct loop_config config = {};
	int fd = open_dev(below(&r, epochs ? 30 : 8) ? O_RDWR : O_RDONLY), img;
	static const unsigned int sizes[] = { 0, 0, 512, 1024, 2048, 4096 };

	if (fd < 0)
		return;
	if (epochs)
		img = open_image_n(image_of(which),
				   is_reader(which) ? O_RDONLY : O_RDWR);
	else
		img = open_image(below(&r, 6) ? O_RDWR : O_RDONLY);
	if (img >= 0) {
		config.fd = (uint32_t)img;
		config.block_size = sizes[below(&r, 6)];
		config.info.lo_offset = below(&r, 4) ? 0 : below(&r, 16) * 512;
		config.info.lo_sizelimit = below(&r, 4) ? 0
							: below(&r, IMAGE_SIZE);
		if (epochs && below(&r, 8)) {
			config.info.lo_offset = 0;
			config.info.lo_sizelimit = 0;
		}
		if (!below(&r, epochs ? 10 : 3))
			config.info.lo_flags |= LO_FLAGS_AUTOCLEAR;
		if (!below(&r, 3))
			config.info.lo_flags |= LO_FLAGS_PARTSCAN;
		if (below(&r, 2))
			config.info.lo_flags |= LO_FLAGS_DIRECT_IO;
		if (!below(&r, epochs ? 30 : 6))
			config.info.lo_flags |= LO_FLAGS_READ_ONLY;
		if (below(&r, 4))
			note(CONFIGURE, ioctl(fd, LOOP_CONFIGURE, &config));
		else
			note(SET_FD, ioctl(fd, LOOP_SET_FD, img));
		close(img);
	}
	/* at times the descriptor stays with us while the device is used */
	if (!below(&r, 4))
		usleep((useconds_t)below(&r, 3000));
	close(fd);
}

static void detach(void)
{
	int fd = open_dev(O_RDONLY);

	if (fd < 0)
		return;
	note(CLR_FD, ioctl(fd, LOOP_CLR_FD, 0));
	close(fd);
	rest(epochs ? 20000 : 5000);
}

static void tweak(void)
{
	static const unsigned int sizes[] = {
		512, 1024, 2048, 4096, 8192, 65536, 3, 0,
	};
	int fd = open_dev(O_RDWR), img;
	struct loop_info64 info;

	if (fd < 0)
		return;
	switch (below(&r, 7)) {
	case 0:
		note(SET_BLOCK_SIZE,
		     ioctl(fd, LOOP_SET_BLOCK_SIZE, sizes[below(&r, 8)]));
		break;
	case 1:
		note(SET_DIRECT_IO,
		     ioctl(fd, LOOP_SET_DIRECT_IO, below(&r, 2)));
		break;
	case 2:
		if (note(GET_STATUS, ioctl(fd, LOOP_GET_STATUS64, &info)) < 0)
			break;
		if (below(&r, 2))
			info.lo_flags ^= LO_FLAGS_AUTOCLEAR;
		if (epochs && below(&r, 4))
			info.lo_flags &= ~LO_FLAGS_AUTOCLEAR;
		if (!below(&r, 3))
			info.lo_flags |= LO_FLAGS_PARTSCAN;
		if (!below(&r, 3))
			info.lo_offset = below(&r, 8) * 512;
		if (!below(&r, 3))
			info.lo_sizelimit = below(&r, 2) * (1 << 20);
		if (epochs && below(&r, 3)) {
			info.lo_offset = 0;
			info.lo_sizelimit = 0;
		}
		note(SET_STATUS, ioctl(fd, LOOP_SET_STATUS64, &info));
		break;
	case 3:
		img = open_image(epochs ? O_RDONLY : O_RDWR);
		if (img < 0)
			break;
		note(CHANGE_FD, ioctl(fd, LOOP_CHANGE_FD, img));
		close(img);
		break;
	case 4:
		note(SET_CAPACITY, ioctl(fd, LOOP_SET_CAPACITY, 0));
		break;
	default:
		note(GET_STATUS, ioctl(fd, LOOP_GET_STATUS64, &info));
	}
	close(fd);
	if (epochs)
		rest(10000);
}

static void resize(void)
{
	int img = open_image(O_RDWR), fd;

	if (img < 0)
		return;
	note(TRUNCATE,
	     ftruncate(img, (off_t)(IMAGE_SIZE / 2 + below(&r, IMAGE_SIZE))));
	close(img);
	fd = open_dev(O_RDWR);
	if (fd < 0)
		return;
	note(SET_CAPACITY, ioctl(fd, LOOP_SET_CAPACITY, 0));
	close(fd);
	usleep((useconds_t)below(&r, 5000));
}

static void opener(void)
{
	int fds[4], i, n = 1 + (int)below(&r, 4);

	for (i = 0; i < n; i++)
		fds[i] = open_dev((below(&r, 3) ? O_RDONLY : O_RDWR) |
				  (below(&r, 5) ? 0 : O_EXCL) |
				  (below(&r, 5) ? 0 : O_DIRECT));
	for (i = 0; i < n; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	/* A device that is always open is never detached. */
	usleep((useconds_t)below(&r, 5000));
}

static void scanner(void)
{
	int fd = open_dev(O_RDONLY);
	char path[256];

	if (fd >= 0) {
		note(RRPART, ioctl(fd, BLKRRPART, 0));
		close(fd);
	}
	/* /dev/NAME-control: the disks are NAMEn */
	sys_path(path, sizeof(path), (unsigned int)below(&r, devices),
		 "uevent");
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd >= 0) {
		note(UEVENT, write(fd, "change", 6));
		close(fd);
	}
	rest(20000);
}

static void io(void)
{
	int direct = (int)below(&r, 2), fd, i;
	uint8_t *buf = aligned(64 << 10);
	uint64_t range[2];

	fd = open_dev_n((unsigned int)below(&r, devices),
			O_RDWR | (direct ? O_DIRECT : 0));
	for (i = 0; fd >= 0 && i < 20; i++) {
		size_t len = 4096 * (1 + below(&r, 16));
		off_t pos = (off_t)(4096 * below(&r, IMAGE_SIZE / 4096));
		void *map;

		range[0] = (uint64_t)pos;
		range[1] = len;
		switch (below(&r, 12)) {
		case 0: case 1: case 2:
			note(READ, pread(fd, buf, len, pos));
			break;
		case 3: case 4: case 5: case 6:
			note(WRITE, pwrite(fd, buf, len, pos));
			break;
		case 7:
			note(FSYNC, fsync(fd));
			break;
		case 8:
			note(DISCARD, ioctl(fd, BLKDISCARD, range));
			break;
		case 9:
			note(ZEROOUT, ioctl(fd, BLKZEROOUT, range));
			break;
		case 10:
			note(FLSBUF, ioctl(fd, BLKFLSBUF, 0));
			break;
		case 11:
			map = mmap(NULL, len, PROT_READ | PROT_WRITE,
				   MAP_SHARED, fd, pos);
			note(MMAP, map == MAP_FAILED ? -1 : 0);
			if (map != MAP_FAILED)
				munmap(map, len);
			break;
		}
	}
	free(buf);
	if (fd >= 0)
		close(fd);
	usleep((useconds_t)below(&r, 5000));
}

static void image_user(void)
{
	uint8_t *buf = aligned(16384);
	int img;

	wait_for_storm();
	img = open_image(O_RDWR);
	if (img >= 0) {
		off_t pos = (off_t)(4096 * below(&r, IMAGE_SIZE / 4096 - 3));

		if (below(&r, 2))
			note(IMAGE_WRITE, pwrite(img, buf, 16384, pos));
		else
			note(IMAGE_PUNCH, fallocate(img,
						    FALLOC_FL_PUNCH_HOLE |
							    FALLOC_FL_KEEP_SIZE,
						    pos, 65536));
		close(img);
	}
	free(buf);
	usleep((useconds_t)below(&r, 5000));
}

static void ctl(void)
{
	int fd = open(control, O_RDWR | O_CLOEXEC), n;

	if (fd < 0 && errno == EACCES && epochs) {
		usleep(10000);
		return;
	}
	if (fd < 0)
		die("%s: %s", control, strerror(errno));
	n = (int)(base + below(&r, devices));
	switch (below(&r, 4)) {
	case 0:
		note(ADD, ioctl(fd, LOOP_CTL_ADD, n));
		break;
	case 1:
		if (note(REMOVE, ioctl(fd, LOOP_CTL_REMOVE, n)) >= 0) {
			usleep((useconds_t)below(&r, 1000));
			note(ADD, ioctl(fd, LOOP_CTL_ADD, n));
		}
		break;
	case 2:
		note(GET_FREE, ioctl(fd, LOOP_CTL_GET_FREE));
		break;
	case 3:
		/* a number out of the common range, and away again */
		n = note(ADD, ioctl(fd, LOOP_CTL_ADD,
				    (int)(base + 500 + below(&r, 1000))));
		if (n >= 0)
			note(REMOVE, ioctl(fd, LOOP_CTL_REMOVE, n));
		break;
	}
	close(fd);
	rest(5000);
}

static void reader_of(const char *path)
{
	struct dirent *e;
	DIR *d = opendir(path);
	char buf[4096], p[512];
	int fd;

	if (!d)
		return;
	while ((e = readdir(d))) {
		if (e->d_type != DT_REG)
			continue;
		snprintf(p, sizeof(p), "%s/%s", path, e->d_name);
		fd = open(p, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			continue;
		note(SYSFS, read(fd, buf, sizeof(buf)));
		close(fd);
	}
	closedir(d);
}

static void sysfs(void)
{
	static const char *const attrs[] = {
		"nr_requests", "read_ahead_kb", "max_sectors_kb",
		"write_cache", "nomerges",
	};
	static const char *const values[] = {
		"64", "128", "256", "write back", "1",
	};
	char path[256], p[300];
	size_t i = below(&r, 5);
	int fd;

	snprintf(path, sizeof(path), "/sys/block/%.*s%u",
		 (int)(strrchr(control, '-') - strrchr(control, '/') - 1),
		 strrchr(control, '/') + 1,
		 base + (unsigned int)below(&r, devices));
	reader_of(path);
	snprintf(p, sizeof(p), "%s/loop", path);
	reader_of(p);
	snprintf(p, sizeof(p), "%s/queue", path);
	reader_of(p);
	snprintf(p, sizeof(p), "%s/queue/%s", path, attrs[i]);
	fd = open(p, O_WRONLY | O_CLOEXEC);
	if (fd >= 0) {
		note(QUEUE, write(fd, values[i], strlen(values[i])));
		close(fd);
	}
	usleep((useconds_t)below(&r, 10000));
}

/* From here on: what is done with -m only. */

static void switch_mapping(void)
{
	unsigned int n = (unsigned int)below(&r, devices);
	char path[128];
	int fd, on;

	sys_path(path, sizeof(path), n, "loop/mapping");
	for (on = 0; on <= 1; on++) {
		fd = open(path, O_WRONLY | O_CLOEXEC);
		if (fd < 0)
			break;
		note(MAPPING, write(fd, on ? "1" : "0", 1));
		close(fd);
		usleep((useconds_t)below(&r, 3000));
	}
	rest(20000);
}

/* Direct I/O of all sizes, in pieces of all sizes. */
static void direct_io(void)
{
	static uint8_t *buf;
	int fd = open_dev(O_RDWR | O_DIRECT), writes, i, n;
	uint64_t most[] = { 8, 32, 256, 2048 }, range[2];
	struct iovec iov[8];

	if (!buf)
		buf = aligned(1 << 20);
	writes = fd >= 0 && (fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDONLY;
	for (i = 0; fd >= 0 && i < 40; i++) {
		size_t left = 512 * (1 + below(&r, most[below(&r, 4)]));
		uint64_t where = IMAGE_SIZE >> below(&r, 4);
		off_t pos = (off_t)(512 * below(&r, where / 512));
		int flags = below(&r, 4) ? 0 : RWF_NOWAIT;
		uint8_t *at = buf;

		range[0] = (uint64_t)pos;
		range[1] = left;
		for (n = 0; n < 8 && left; n++) {
			iov[n].iov_base = at;
			iov[n].iov_len = n == 7 || below(&r, 2) ? left :
					 512 * (1 + below(&r, left / 512));
			at += iov[n].iov_len;
			left -= iov[n].iov_len;
		}
		switch (writes ? below(&r, 16) : 4 + below(&r, 7)) {
		case 0:
			note(FSYNC, fdatasync(fd));
			break;
		case 1:
			note(DISCARD, ioctl(fd, BLKDISCARD, range));
			break;
		case 2:
			note(ZEROOUT, ioctl(fd, BLKZEROOUT, range));
			break;
		case 3:
			note(WRITE, pwritev2(fd, iov, n, pos, RWF_DSYNC));
			break;
		case 4:
			note(READ, preadv2(fd, iov, n, pos, RWF_HIPRI));
			break;
		case 5: case 6: case 7: case 8: case 9: case 10:
			note(DIRECT_READ, preadv2(fd, iov, n, pos, flags));
			break;
		default:
			note(DIRECT_WRITE, pwritev2(fd, iov, n, pos, flags));
			break;
		}
	}
	if (fd >= 0)
		close(fd);
	usleep((useconds_t)below(&r, 5000));
}

/* Many at once; the descriptor is gone before they have ended. */
static void async_io(void)
{
	enum { DEPTH = 16, MOST = 128 << 10 };
	static uint8_t *buf;
	int fd = open_dev(O_RDWR | O_DIRECT), i, n = 0;
	struct iocb iocbs[DEPTH] = {}, *list[DEPTH];
	struct io_event events[DEPTH];
	aio_context_t ctx = 0;
	int writes;

	if (fd < 0)
		return;
	writes = (fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDONLY;
	if (!buf)
		buf = aligned(DEPTH * MOST);
	if (syscall(SYS_io_setup, DEPTH, &ctx)) {
		close(fd);
		return;
	}
	for (i = 0; i < DEPTH; i++) {
		iocbs[i].aio_fildes = (uint32_t)fd;
		iocbs[i].aio_lio_opcode = below(&r, 2) || !writes
						  ? IOCB_CMD_PREAD
						  : IOCB_CMD_PWRITE;
		iocbs[i].aio_buf = (uintptr_t)buf + (size_t)i * MOST;
		iocbs[i].aio_nbytes = 512 * (1 + below(&r, MOST / 512));
		iocbs[i].aio_offset =
			(int64_t)(512 * below(&r, IMAGE_SIZE / 512));
		if (!below(&r, 8))
			iocbs[i].aio_lio_opcode = IOCB_CMD_FDSYNC;
		list[i] = &iocbs[i];
	}
	n = (int)syscall(SYS_io_submit, ctx, DEPTH, list);
	if (n < 0)
		note(ASYNC, n);
	close(fd);
	if (n > 0 && below(&r, 2)) {
		n = (int)syscall(SYS_io_getevents, ctx, n, DEPTH, events, NULL);
		for (i = 0; i < n; i++) {
			errno = (int)-events[i].res;
			note_any(ASYNC, events[i].res < 0 ? -1 : 0);
		}
	}
	syscall(SYS_io_destroy, ctx);
	usleep((useconds_t)below(&r, 10000));
}

static void open_images(void)
{
	static const struct {
		int flags;
		enum call call;
	} modes[] = {
		{ O_RDONLY, IMAGE_R }, { O_WRONLY, IMAGE_W },
		{ O_RDWR, IMAGE_RW }, { O_ACCMODE, IMAGE_NEITHER },
		{ O_RDONLY | O_NONBLOCK, IMAGE_NONBLOCK },
		{ O_RDWR | O_NONBLOCK, IMAGE_NONBLOCK },
	};
	unsigned int n = (unsigned int)below(&r, IMAGES), m;
	char buf[4096];
	void *map;
	int fd;

	wait_for_storm();
	m = (unsigned int)below(&r, sizeof(modes) / sizeof(*modes));
	fd = open(image_path(n), modes[m].flags | O_CLOEXEC);
	note_any(modes[m].call, fd);
	if (fd >= 0) {
		switch (below(&r, 5)) {
		case 0:
			note_any(IMAGE_READ, pread(fd, buf, sizeof(buf), 8192));
			break;
		case 1:
			posix_fadvise(fd, 0, 1 << 20, POSIX_FADV_WILLNEED);
			break;
		case 2:
			map = mmap(NULL, 65536, PROT_READ | PROT_WRITE,
				   MAP_SHARED, fd, 1 << 20);
			note_any(IMAGE_MMAP, map == MAP_FAILED ? -1 : 0);
			if (map == MAP_FAILED)
				break;
			/* Written back later: others may cut it off first. */
			if (!below(&r, 4))
				madvise(map, 65536, MADV_POPULATE_WRITE);
			munmap(map, 65536);
			break;
		default:
			usleep((useconds_t)below(&r, 3000));
		}
		close(fd);
	}
	usleep((useconds_t)below(&r, 30000));
}

/* Without a descriptor, and what the device makes of it. */
static void change_size(void)
{
	unsigned int n = (unsigned int)below(&r, IMAGES), dev = n;
	off_t size = IMAGE_SIZE, less = (off_t)below(&r, IMAGE_SIZE / 2);
	int fd, i;

	wait_for_storm();
	if (keeps_size(n))
		return;
	for (i = 0; i < 3; i++) {
		if (i == 0)
			note_any(CUT, truncate(image_path(n), size - less));
		else if (i == 1)
			note_any(GROW, truncate(image_path(n), size + less));
		else
			note_any(CUT, truncate(image_path(n), size));
		fd = open_dev_n(dev, O_RDWR);
		if (fd >= 0) {
			note(RESIZED, ioctl(fd, LOOP_SET_CAPACITY, 0));
			close(fd);
		}
		usleep((useconds_t)below(&r, 3000));
	}
	usleep((useconds_t)below(&r, 50000));
}

struct flags {
	uint64_t xflags;
	uint32_t extsize, nextents, projid, cowextsize;
};

/* The flags of a file, by path (7.x): no descriptor, no lease to break. */
static int set_flags_by_path(const char *path, uint64_t xflags)
{
	struct flags flags = { .xflags = xflags };

	return (int)syscall(469, AT_FDCWD, path, &flags, sizeof(flags), 0);
}

static void attributes(void)
{
	unsigned int n = (unsigned int)below(&r, IMAGES);
	const char *path = image_path(n);
	static const int kinds[] = {
		FS_IMMUTABLE_FL, FS_APPEND_FL, FS_NODUMP_FL, 0x4000,
	};
	int fd = -1, flags = 0, off = 0;

	wait_for_storm();
	switch (below(&r, 5)) {
	case 0:
		note_any(CHMOD, chmod(path, below(&r, 2) ? 0600 : 0644));
		break;
	case 1:
		note_any(UTIMES, utimensat(AT_FDCWD, path, NULL, 0));
		break;
	case 2:
		note_any(SETXATTR, setxattr(path, "user.stress", "x", 1, 0));
		break;
	case 3:
		/* 0x4000 (FS_JOURNAL_DATA_FL): ext4 goes another way then */
		fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
		if (fd < 0)
			break;
		if (!ioctl(fd, FS_IOC_GETFLAGS, &off)) {
			off &= ~(FS_IMMUTABLE_FL | FS_APPEND_FL | 0x4000);
			flags = off | kinds[below(&r, 4)];
			note_any(CHATTR, ioctl(fd, FS_IOC_SETFLAGS, &flags));
			usleep((useconds_t)below(&r, 2000));
			ioctl(fd, FS_IOC_SETFLAGS, &off);
		}
		close(fd);
		break;
	case 4:
		note_any(SETATTR, set_flags_by_path(path, below(&r, 2) ?
						    FS_XFLAG_IMMUTABLE :
						    FS_XFLAG_APPEND));
		usleep((useconds_t)below(&r, 2000));
		set_flags_by_path(path, 0);
		break;
	}
	usleep((useconds_t)below(&r, 40000));
}

/* A lease of the owner's: others wait for it, but not for long. */
static void take_lease(void)
{
	int fd;

	wait_for_storm();
	fd = open_image(O_RDONLY | O_NONBLOCK);
	if (fd >= 0) {
		if (note_any(LEASE, fcntl(fd, F_SETLEASE, F_RDLCK)) >= 0) {
			usleep((useconds_t)below(&r, 1000));
			fcntl(fd, F_SETLEASE, F_UNLCK);
		}
		close(fd);
	}
	usleep((useconds_t)below(&r, 50000));
}

static void write_pieces(int fd, const uint8_t *buf, size_t piece, off_t from)
{
	off_t pos;

	for (pos = from; pos < IMAGE_SIZE; pos += (off_t)(2 * piece))
		if (pwrite(fd, buf, piece, pos) < 0 && errno != ENOSPC)
			die("writing an image: %s", strerror(errno));
	fsync(fd);
}

/* Without holes, in pieces; all have the same bytes. */
static int make_image(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	uint8_t *buf = aligned(65536);

	if (fd >= 0) {
		memset(buf, 7, 65536);
		fchown(fd, owner, (gid_t)owner);
		write_pieces(fd, buf, 65536, 0);
		write_pieces(fd, buf, 65536, 65536);
		close(fd);
	}
	free(buf);
	return fd;
}

/* The old one goes on without a name as long as a device is attached to it. */
static void replace_image(unsigned int n)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/new.%u.%d", dir, n, getpid());
	if (make_image(path) >= 0 &&
	    note_any(RENEW, rename(path, image_path(n))) < 0)
		unlink(path);
}

static void renew(void)
{
	wait_for_storm();
	replace_image((unsigned int)below(&r, IMAGES));
	usleep((useconds_t)below(&r, 300000));
}

static void share_blocks(void)
{
	unsigned int n = (unsigned int)below(&r, IMAGES);
	unsigned int with = (unsigned int)below(&r, IMAGES);
	struct {
		struct file_dedupe_range head;
		struct file_dedupe_range_info to;
	} dedupe = {};
	char path[256];
	int from, to;

	wait_for_storm();
	from = open_image_n(n, O_RDONLY);
	if (from < 0)
		return;
	if (below(&r, 3)) {
		dedupe.head.src_offset = 65536 * below(&r, IMAGE_SIZE / 65536);
		dedupe.head.src_length = 65536;
		dedupe.head.dest_count = 1;
		dedupe.to.dest_offset = dedupe.head.src_offset;
		to = open_image_n(with, O_ACCMODE);
		if (to >= 0) {
			int ret;

			dedupe.to.dest_fd = to;
			ret = ioctl(from, FIDEDUPERANGE, &dedupe);
			if (!ret && dedupe.to.status < 0) {
				errno = -dedupe.to.status;
				ret = -1;
			}
			note_any(DEDUPE, ret);
			close(to);
		}
	} else {
		snprintf(path, sizeof(path), "%s/clone.%u", dir, n);
		to = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
		if (to >= 0) {
			fchown(to, owner, (gid_t)owner);
			note_any(CLONE, ioctl(to, FICLONE, from));
			unlink(path);
			close(to);
		}
	}
	close(from);
	/* What is or was shared isn't mapped any more. */
	if (can_clone && below(&r, 4)) {
		usleep((useconds_t)below(&r, 5000));
		replace_image(n);
		replace_image(with);
	}
	usleep((useconds_t)below(&r, 200000));
}

static uint64_t counter(unsigned int dev, const char *name)
{
	char folder[128];
	uint64_t n;

	sys_path(folder, sizeof(folder), dev, "loop");
	return loopstat(folder, name, &n) ? n : 0;
}

/*
 * They begin anew with each image: what has gone since the last look is lost.
 */
static void watch(void)
{
	static const char * const names[] = {
		"epochs_begun", "epochs_broken", "ios_mapped", "ios_file",
	};
	static uint64_t last[256][4];
	uint64_t *sums = (uint64_t *)seen, now;
	unsigned int dev, i;

	for (dev = 0; dev < devices && dev < 256; dev++) {
		for (i = 0; i < 4; i++) {
			now = counter(dev, names[i]);
			__atomic_add_fetch(&sums[i], now >= last[dev][i] ?
					   now - last[dev][i] : now,
					   __ATOMIC_RELAXED);
			last[dev][i] = now;
		}
	}
	seen->enough |= !missing();
	usleep(5000);
}

static void (* const kinds[])(void) = {
	configure, configure, detach, detach, tweak, tweak, resize, opener,
	scanner, io, io, image_user, ctl, sysfs,
};

static void (* const mapped_kinds[])(void) = {
	watch, configure, configure, detach, tweak, tweak, opener, scanner, io,
	ctl, sysfs, switch_mapping, direct_io, direct_io, direct_io, async_io,
	image_user, open_images, open_images, change_size, attributes,
	take_lease, share_blocks, renew,
};

#define KINDS (sizeof(kinds) / sizeof(*kinds))
#define MAPPED_KINDS (sizeof(mapped_kinds) / sizeof(*mapped_kinds))

static void keep_capabilities(uint32_t caps)
{
	struct __user_cap_header_struct head = {
		.version = _LINUX_CAPABILITY_VERSION_3,
	};
	struct __user_cap_data_struct data[2] = {};

	data[0].effective = caps;
	data[0].permitted = caps;
	if (syscall(SYS_capset, &head, data))
		die("capset: %s", strerror(errno));
}

static void drop_to_owner(size_t groups)
{
	if (setgroups(groups, &group) || setgid((gid_t)owner) || setuid(owner))
		die("becoming %u: %s", owner, strerror(errno));
	/* or /proc/self is root's */
	prctl(PR_SET_DUMPABLE, 1);
}

static void write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		die("%s: %s", path, strerror(errno));
	close(fd);
}

/* Root of a user namespace: of files of its own, and of nothing else. */
static void enter_namespace(void)
{
	int socks[2], status;
	char map[64];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, socks))
		die("socketpair: %s", strerror(errno));
	pid = fork();
	if (pid < 0)
		die("fork: %s", strerror(errno));
	if (pid) {
		close(socks[1]);
		be_broker(socks[0]);
		if (waitpid(pid, &status, 0) != pid)
			die("waitpid: %s", strerror(errno));
		exit(!!status);
	}
	close(socks[0]);
	broker = socks[1];
	drop_to_owner(0);
	/*
	 * EPERM: root itself is chrooted. Then a user with descriptors it is.
	 */
	if (note_any(NAMESPACE, unshare(CLONE_NEWUSER))) {
		if (errno != EPERM)
			die("unshare: %s", strerror(errno));
		return;
	}
	snprintf(map, sizeof(map), "0 %u 1", owner);
	write_text("/proc/self/uid_map", map);
}

static void become(unsigned int role)
{
	switch (role % 4) {
	case 1:
		drop_to_owner(1);
		break;
	case 2:
		enter_namespace();
		break;
	case 3:
		keep_capabilities(1U << CAP_CHOWN | 1U << CAP_DAC_OVERRIDE |
				  1U << CAP_FOWNER | 1U << CAP_LINUX_IMMUTABLE |
				  1U << CAP_SYS_ADMIN);
		break;
	}
}

/* Process @slot, for the @turn-th time. */
static pid_t start(unsigned int slot, unsigned int turn, uint64_t seed,
		   double turn_ends)
{
	pid_t pid = fork();

	if (pid < 0)
		die("fork: %s", strerror(errno));
	if (pid)
		return pid;
	r.state = mix(seed * 1000 + slot + turn * 100000ULL);
	if (!epochs) {
		while (!over())
			kinds[slot % KINDS]();
		exit(0);
	}
	/* The watcher stays what it is, with what it has seen. */
	if (slot % MAPPED_KINDS == 0)
		turn_ends += 1e9;
	else
		become(slot + turn);
	while (!over() && seconds() < turn_ends)
		mapped_kinds[slot % MAPPED_KINDS]();
	exit(0);
}

/* Returns how many processes ended badly. */
static unsigned int run(unsigned int slots, uint64_t seed, double turn)
{
	unsigned int *turns = calloc(slots, sizeof(*turns)), i, bad = 0;
	pid_t *pids = calloc(slots, sizeof(*pids)), pid;
	int status;

	if (!turns || !pids)
		die("no memory");
	for (i = 0; i < slots; i++)
		pids[i] = start(i, 0, seed, seconds() + turn);
	while ((pid = wait(&status)) > 0) {
		bad += !!status;
		/* Without all of them it may never be enough. */
		seen->enough |= bad;
		for (i = 0; i < slots && pids[i] != pid; i++)
			;
		if (!status && !over() && i < slots)
			pids[i] = start(i, ++turns[i], seed, seconds() + turn);
	}
	free(turns);
	free(pids);
	return bad;
}

static int try_clone(void)
{
	char path[256];
	int from = open(image_path(0), O_RDONLY | O_CLOEXEC), to, ret;

	snprintf(path, sizeof(path), "%s/clone", dir);
	to = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	ret = !ioctl(to, FICLONE, from);
	unlink(path);
	close(to);
	close(from);
	return ret;
}

/* A run in which something never worked shows nothing. */
static void check_counts(void)
{
	if (!epochs) {
		if (!counts[CONFIGURE].ok || !counts[CLR_FD].ok ||
		    !counts[READ].ok || !counts[WRITE].ok ||
		    !counts[REMOVE].ok)
			die("a run in which one of the main calls "
			    "never worked");
		return;
	}
	printf("at least %ju epochs begun, %ju broken, %ju I/Os mapped, %ju not\n",
	       (uintmax_t)seen->begun, (uintmax_t)seen->broken,
	       (uintmax_t)seen->ios_mapped, (uintmax_t)seen->ios_file);
	if (missing())
		die("a run in which there was never or too seldom: %s",
		    missing());
}

static void make_images(void)
{
	unsigned int i;
	int fd;

	for (i = 0; i < IMAGES; i++) {
		const char *path = image_path(i);

		if (epochs) {
			fd = make_image(path);
		} else {
			fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
			if (fd >= 0 && (ftruncate(fd, IMAGE_SIZE) || close(fd)))
				fd = -1;
		}
		if (fd < 0)
			die("%s: %s", path, strerror(errno));
	}
}

static void remove_images(void)
{
	int fd, flags = 0;
	unsigned int i;

	for (i = 0; i < IMAGES; i++) {
		if (epochs) {
			fd = open(image_path(i), O_RDONLY | O_CLOEXEC);
			if (!ioctl(fd, FS_IOC_GETFLAGS, &flags)) {
				flags &= ~(FS_IMMUTABLE_FL | FS_APPEND_FL);
				ioctl(fd, FS_IOC_SETFLAGS, &flags);
			}
			close(fd);
		}
		unlink(image_path(i));
	}
}

int main(int argc, char **argv)
{
	unsigned int each = 1, i, e, bad;
	uint64_t seed = 1, limit = 20;
	int opt, fd;
	struct stat st;

	while ((opt = getopt(argc, argv, "t:s:d:p:b:m:")) != -1) {
		switch (opt) {
		case 't':
			limit = strtoull(optarg, NULL, 0);
			break;
		case 's':
			seed = strtoull(optarg, NULL, 0);
			break;
		case 'd':
			devices = (unsigned int)atoi(optarg);
			break;
		case 'p':
			each = (unsigned int)atoi(optarg);
			break;
		case 'b':
			base = (unsigned int)atoi(optarg);
			break;
		case 'm':
			epochs = strtoull(optarg, NULL, 0);
			break;
		default:
			die("stress [-t SECONDS] [-s SEED] [-d DEVICES] [-p PROCESSES-OF-A-KIND] [-b BASE] [-m EPOCHS] DIR");
		}
	}
	control = getenv("CTL");
	if (!control)
		control = "/dev/loop-control";
	if (optind + 1 != argc || !devices)
		die("stress: a folder for the images");
	dir = argv[optind];
	counts = mmap(NULL, NR_CALLS * sizeof(*counts), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	seen = mmap(NULL, sizeof(*seen), PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (counts == MAP_FAILED || seen == MAP_FAILED)
		die("no memory");
	make_images();
	fd = open(control, O_RDWR | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st))
		die("%s: %s", control, strerror(errno));
	group = st.st_gid;
	for (i = 0; i < devices; i++)
		if (ioctl(fd, LOOP_CTL_ADD, base + i) < 0 && errno != EEXIST)
			die("LOOP_CTL_ADD %u: %s", base + i, strerror(errno));
	if (epochs) {
		can_clone = try_clone();
		can_set_by_path = set_flags_by_path(image_path(0), 0) >= 0;
		/* of a lease that is being broken */
		signal(SIGIO, SIG_IGN);
	}
	fflush(stdout);

	begin = seconds();
	end = begin + (double)limit;
	bad = run((unsigned int)(epochs ? MAPPED_KINDS : KINDS) * each, seed,
		  (double)limit / 8 > 3 ? (double)limit / 8 : 3);

	/*
	 * Away with all of it: what was attached, then the devices; others may
	 * look at them for a moment yet.
	 */
	for (i = 0; i < devices; i++) {
		char path[128];
		int n, left;

		snprintf(path, sizeof(path), "%.*s%u",
			 (int)(strrchr(control, '-') - control), control,
			 base + i);
		for (n = 0; n < 3000; n++) {
			int dev = open(path, O_RDONLY | O_CLOEXEC);

			left = dev >= 0 && !ioctl(dev, LOOP_CLR_FD);
			if (dev >= 0)
				close(dev);
			if (!left &&
			    (ioctl(fd, LOOP_CTL_REMOVE, base + i) >= 0 ||
			     errno == ENODEV))
				break;
			usleep(10000);
		}
		if (n == 3000)
			die("%s: cannot be removed: %s", path, strerror(errno));
	}
	remove_images();
	for (i = 0; i < NR_CALLS; i++) {
		if (!counts[i].ok && !counts[i].failed)
			continue;
		printf("  %-22s %8ju ok %8ju failed", names[i],
		       (uintmax_t)counts[i].ok, (uintmax_t)counts[i].failed);
		for (e = 0; e < 160; e++)
			if (counts[i].by_errno[e])
				printf(", %s %ju", strerrorname_np((int)e),
				       (uintmax_t)counts[i].by_errno[e]);
		putchar('\n');
	}
	if (bad)
		die("%u processes ended badly", bad);
	check_counts();
	return 0;
}
