// SPDX-License-Identifier: GPL-2.0
/* Ways to come by a descriptor of the image. */
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>

#include "adversary.h"

#define RING_ENTRIES 4U

struct ring {
	int fd;
	atomic_uint *sq_tail, *cq_head, *cq_tail;
	unsigned int *sq_array;
	uint32_t sq_mask, cq_mask;
	struct io_uring_sqe *sqes;
	struct io_uring_cqe *cqes;
};

bool is_counted(const struct desc *d)
{
	return d->used && (d->access == RDONLY || d->access == WRONLY ||
			   d->access == RDWR);
}

static enum access access_of(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0)
		fail("F_GETFL: %s", strerror(errno));
	if (flags & O_PATH)
		return PATH;
	switch (flags & O_ACCMODE) {
	case O_RDONLY:
		return RDONLY;
	case O_WRONLY:
		return WRONLY;
	case O_RDWR:
		return RDWR;
	default:
		return NEITHER;
	}
}

/* io_uring */

static struct ring *ring_new(void)
{
	struct io_uring_params p = {};
	struct ring *ring = calloc(1, sizeof(*ring));
	int none[SLOTS], i;
	uint8_t *sq, *cq;

	if (!ring)
		fail("no memory");
	ring->fd = (int)syscall(SYS_io_uring_setup, RING_ENTRIES, &p);
	if (ring->fd < 0)
		fail("io_uring_setup: %s", strerror(errno));
	sq = mmap(NULL, p.sq_off.array + p.sq_entries * sizeof(uint32_t),
		  PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd,
		  IORING_OFF_SQ_RING);
	cq = mmap(NULL, p.cq_off.cqes + p.cq_entries * sizeof(*ring->cqes),
		  PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd,
		  IORING_OFF_CQ_RING);
	ring->sqes = mmap(NULL, p.sq_entries * sizeof(*ring->sqes),
			  PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd,
			  IORING_OFF_SQES);
	if (sq == MAP_FAILED || cq == MAP_FAILED || ring->sqes == MAP_FAILED)
		fail("io_uring: mmap: %s", strerror(errno));
	ring->sq_tail = (atomic_uint *)(sq + p.sq_off.tail);
	ring->sq_array = (unsigned int *)(sq + p.sq_off.array);
	ring->sq_mask = *(uint32_t *)(sq + p.sq_off.ring_mask);
	ring->cq_head = (atomic_uint *)(cq + p.cq_off.head);
	ring->cq_tail = (atomic_uint *)(cq + p.cq_off.tail);
	ring->cq_mask = *(uint32_t *)(cq + p.cq_off.ring_mask);
	ring->cqes = (struct io_uring_cqe *)(cq + p.cq_off.cqes);
	for (i = 0; i < (int)SLOTS; i++)
		none[i] = -1;
	if (syscall(SYS_io_uring_register, ring->fd, IORING_REGISTER_FILES,
		    none, SLOTS))
		fail("io_uring_register: %s", strerror(errno));
	return ring;
}

static int ring_set(struct ring *ring, unsigned int slot, int fd)
{
	struct io_uring_files_update update = {
		.offset = slot, .fds = (uintptr_t)&fd,
	};

	return (int)syscall(SYS_io_uring_register, ring->fd,
			    IORING_REGISTER_FILES_UPDATE, &update, 1);
}

/* One operation on the registered file of the descriptor in use, and its end */
int ring_do(struct adversary *a, uint8_t opcode, uint64_t off, void *addr,
	    uint32_t len, uint32_t flags)
{
	struct ring *ring = a->ring;
	unsigned int tail = *ring->sq_tail, at = tail & ring->sq_mask, head;
	struct io_uring_sqe *sqe = &ring->sqes[at];
	int res;

	memset(sqe, 0, sizeof(*sqe));
	sqe->opcode = opcode;
	sqe->flags = IOSQE_FIXED_FILE;
	sqe->fd = (int)(a->d - a->slots);
	sqe->off = off;
	sqe->addr = (uintptr_t)addr;
	sqe->len = len;
	sqe->rw_flags = (int)flags;
	ring->sq_array[at] = at;
	*ring->sq_tail = tail + 1;
	while (syscall(SYS_io_uring_enter, ring->fd, 1, 1,
		       IORING_ENTER_GETEVENTS, NULL, 0) < 0)
		if (errno != EINTR)
			fail("io_uring_enter: %s", strerror(errno));
	head = *ring->cq_head;
	while (head == *ring->cq_tail)
		usleep(100);
	res = ring->cqes[head & ring->cq_mask].res;
	*ring->cq_head = head + 1;
	return res;
}

/* Descriptors in sockets */

void send_fd(int sock, int fd)
{
	char control[CMSG_SPACE(sizeof(int))] = {}, byte = 0;
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = control, .msg_controllen = sizeof(control),
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	if (sendmsg(sock, &msg, MSG_DONTWAIT) < 0 && errno != EAGAIN &&
	    errno != ETOOMANYREFS && errno != ENOBUFS)
		fail("sendmsg: %s", strerror(errno));
}

static int receive_fd(int sock)
{
	char control[CMSG_SPACE(sizeof(int))] = {}, byte;
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = control, .msg_controllen = sizeof(control),
	};
	struct cmsghdr *c;
	int fd;

	if (recvmsg(sock, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) < 0)
		return -1;
	c = CMSG_FIRSTHDR(&msg);
	if (!c || c->cmsg_type != SCM_RIGHTS) {
		errno = ENOMSG;
		return -1;
	}
	memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	return fd;
}

void inbox_drain(struct adversary *a)
{
	int fd;

	while ((fd = receive_fd(a->inbox)) >= 0)
		close(fd);
}

/* Overlays: the image's folder as the upper layer, and below one in memory */

#define SCRATCH "/mnt"

static bool overlay_mount(struct adversary *a, unsigned int lower)
{
	const char *merged = lower ? SCRATCH "/m1" : SCRATCH "/m0";
	char options[700];

	if (lower)
		snprintf(options, sizeof(options),
			 "userxattr,lowerdir=%s,upperdir=%s,workdir=%s", home,
			 SCRATCH "/upper", SCRATCH "/work");
	else
		snprintf(options, sizeof(options),
			 "userxattr,lowerdir=%s,upperdir=%s,workdir=%s/work",
			 SCRATCH "/lower", home, dir);
	a->overlay[lower] = !mount("overlay", merged, "overlay", 0, options);
	arena->mounts[!a->overlay[lower]]++;
	return a->overlay[lower];
}

/* What has been copied up isn't the image any more: have it below again. */
static void overlay_again(struct adversary *a)
{
	if (access(SCRATCH "/upper/image", F_OK))
		return;
	umount2(SCRATCH "/m1", MNT_DETACH);
	unlink(SCRATCH "/upper/image");
	overlay_mount(a, 1);
}

void descriptors_begin(struct adversary *a)
{
	static const char * const dirs[] = {
		SCRATCH "/m0", SCRATCH "/m1", SCRATCH "/lower",
		SCRATCH "/upper", SCRATCH "/work",
	};
	unsigned int i;

	a->ring = ring_new();
	if (a->id != 2)
		return;
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("tmpfs", SCRATCH, "tmpfs", 0, "size=64m"))
		fail("mount in a namespace: %s", strerror(errno));
	for (i = 0; i < sizeof(dirs) / sizeof(*dirs); i++)
		mkdir(dirs[i], 0755);
	overlay_mount(a, 0);
	overlay_mount(a, 1);
}

/* The image has two names; one is nobody's, and the other may be away. */

void names_take(void)
{
	while (atomic_exchange(&arena->names, 1))
		usleep(200);
}

void names_let_go(void)
{
	arena->names = 0;
}

static int open_name(struct adversary *a, int flags)
{
	struct stat st;
	int fd;

	if (!below(&a->r, 2))
		return open(image, flags);
	names_take();
	fd = open(home_image, flags);
	if (fd >= 0 && (fstat(fd, &st) || st.st_ino != image_ino))
		fail("%s is another file", home_image);
	names_let_go();
	return fd;
}

static int open_overlay(struct adversary *a, int flags, enum access access)
{
	/* Whoever writes to what is below copies it up first. */
	bool lower = a->overlay[1] && access != WRONLY && access != RDWR &&
		     below(&a->r, 2);
	int fd;

	if (!lower && !a->overlay[0]) {
		errno = ENODEV;
		return -1;
	}
	a->d->lower = lower;
	if (lower)
		overlay_again(a);
	names_take();
	fd = open(lower ? SCRATCH "/m1/image" : SCRATCH "/m0/image", flags);
	names_let_go();
	return fd;
}

static int reopen(struct adversary *a, int flags)
{
	static const int firsts[] = { O_PATH, O_ACCMODE, O_RDONLY };
	int first, fd, err;
	char path[64];

	first = open_name(a, firsts[below(&a->r, 2)] | O_CLOEXEC);
	if (first < 0)
		return -1;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", first);
	fd = open(path, flags);
	err = errno;
	close(first);
	errno = err;
	return fd;
}

static int obtain_fd(struct adversary *a, struct desc *d)
{
	static const int modes[] = { O_ACCMODE, O_RDONLY, O_WRONLY, O_RDWR,
				     O_PATH };
	int flags = modes[d->access] | O_CLOEXEC;

	if (d->access != PATH) {
		flags |= below(&a->r, 3) ? 0 : O_DIRECT;
		flags |= below(&a->r, 3) ? 0 : O_NONBLOCK;
	}
	switch (d->how) {
	case REOPENED:
		return reopen(a, flags);
	case RECEIVED:
		return receive_fd(a->inbox);
	case OVERLAY:
		return open_overlay(a, flags, d->access);
	default:
		return open_name(a, flags);
	}
}

int descriptor_obtain(struct adversary *a, struct desc *d, bool before,
		      enum gate gate)
{
	/* With O_PATH, most is refused. */
	static const enum access some[] = {
		NEITHER, NEITHER, NEITHER, RDONLY, RDONLY, RDONLY, WRONLY,
		WRONLY, RDWR, RDWR, RDWR, RDWR, PATH,
	};
	int fd, flags;

	a->d = d;
	d->lower = false;
	d->how = (enum how)below(&a->r, a->id == 2 ? HOWS : OVERLAY);
	d->access = some[below(&a->r, sizeof(some) / sizeof(*some))];
	if (gate == UNCOUNTED)
		d->access = below(&a->r, 8) ? NEITHER : PATH;
	fd = obtain_fd(a, d);
	if (fd < 0)
		return -errno;
	if (d->how == RECEIVED)
		d->access = access_of(fd);
	flags = fcntl(fd, F_GETFL);
	d->direct = flags & O_DIRECT;
	d->before = before;
	d->used = true;
	d->fd = fd;
	if (gate == UNCOUNTED && is_counted(d)) {
		close(fd);
		d->used = false;
		return -EAGAIN;
	}
	if (d->how != RING)
		return 0;
	if (ring_set(a->ring, (unsigned int)(d - a->slots), fd) != 1) {
		d->how = PLAIN;
		return 0;
	}
	close(fd);
	d->fd = -1;
	return 0;
}

void descriptor_release(struct adversary *a, struct desc *d)
{
	if (!d->used)
		return;
	if (d->how == RING)
		ring_set(a->ring, (unsigned int)(d - a->slots), -1);
	else
		close(d->fd);
	d->used = false;
}

/* What system calls take: of a registered file, one that is installed for it */
int descriptor_of(struct adversary *a, struct desc *d, bool *installed)
{
	int fd;

	*installed = d->how == RING;
	if (!*installed)
		return d->fd;
	fd = ring_do(a, IORING_OP_FIXED_FD_INSTALL, 0, NULL, 0, 0);
	if (fd < 0)
		fail("IORING_OP_FIXED_FD_INSTALL: %s", strerror(-fd));
	return fd;
}
