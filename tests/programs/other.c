// SPDX-License-Identifier: GPL-2.0
/*
 * What another process may do to a file that is an image, and no tool of the
 * guest does so exactly.
 *
 *   other truncate PATH SIZE
 *	by path: truncate(2)
 *   other ftruncate FD SIZE
 *	by a descriptor that it has inherited
 *   other punch FD POS LEN
 *	a hole, the same way
 *   other write FD POS SEED LEN
 *	a pattern, the same way
 *   other nonblock r|w|rw PATH
 *	open with O_NONBLOCK, and close
 *   other handle PATH [POS LEN]
 *	open by handle, punch a hole, and close
 *   other map PATH POS SEED LEN
 *	write a pattern through a shared mapping, whose descriptor is closed;
 *	says "mapped", and unmaps it at the end of its input
 *   other fixed PATH
 *	leave a descriptor in an io_uring and nowhere else; says "fixed", and
 *	ends with its input
 *   other poll DEVICE
 *	submit a read that is to be polled for (io_uring), and don't; says
 *	"submitted", and ends with its input
 *   other copy FROM POS TO POS LEN
 *	copy_file_range(2)
 *   other splice FROM POS TO POS LEN, other sendfile FROM POS TO POS LEN
 *   other fallocate PATH MODE POS LEN
 *	with the mode as a number
 *   other swap-boot PATH
 *	EXT4_IOC_SWAP_BOOT: it changes places with the boot loader's inode
 *   other enforce PATH 0|1
 *	users' quota in the file system of that device: turn enforcement off or
 *	on
 *   other socket PATH SIZE
 *	leave a descriptor in a socket and nowhere else; says "sent". At the end
 *	of its input, take it out and truncate the file through it
 *   other aio PATH POS SEED LEN BLOCK
 *	direct writes of a pattern, all of them in flight at once; says
 *	"submitted" before it waits for them
 *   other atomic PATH POS SEED LEN BLOCK
 *	direct writes with RWF_ATOMIC, one after the other; says "open" before
 *   other stuck PATH
 *	read(2) into memory that is never provided (userfaultfd), which holds
 *	the inode's lock on xfs; says "reading" before
 *   other stuck-fiemap PATH
 *	the same for FS_IOC_FIEMAP, with a descriptor for neither reading nor
 *	writing; says "asking" before
 *   other flags PATH +|-XFLAGS
 *	by path, with no descriptor of it: file_setattr(2)
 */
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/dqblk_xfs.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/quota.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "ring.h"

/* Not yet in the C library's headers */
#ifndef RWF_ATOMIC
#define RWF_ATOMIC 0x40
#endif
#ifndef SYS_file_getattr
#define SYS_file_getattr 468
#define SYS_file_setattr 469
#endif

/* struct file_attr: for file_getattr(2) */
struct attributes {
	uint64_t xflags;
	uint32_t extent_size;
	uint32_t extents;
	uint32_t project;
	uint32_t cow_extent_size;
};

static void must(int ok, const char *what)
{
	if (!ok)
		die("%s: %s", what, strerror(errno));
}

static void wait_for_end_of_input(const char *say)
{
	char c;

	puts(say);
	fflush(stdout);
	while (read(0, &c, 1) > 0)
		;
}

static int flags_of(const char *how)
{
	return !strcmp(how, "r")   ? O_RDONLY
	       : !strcmp(how, "w") ? O_WRONLY
				   : O_RDWR;
}

static void punch(int fd, uint64_t pos, uint64_t len)
{
	must(!fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			(off_t)pos, (off_t)len),
	     "fallocate");
}

static void do_handle(const char *path, int argc, char **argv)
{
	struct file_handle *h = calloc(1, sizeof(*h) + MAX_HANDLE_SZ);
	char dir[4096];
	int mount, dirfd, fd;

	h->handle_bytes = MAX_HANDLE_SZ;
	must(!name_to_handle_at(AT_FDCWD, path, h, &mount, 0),
	     "name_to_handle_at");
	snprintf(dir, sizeof(dir), "%s", path);
	*strrchr(dir, '/') = '\0';
	dirfd = open(dir, O_RDONLY | O_DIRECTORY);
	must(dirfd >= 0, dir);
	fd = open_by_handle_at(dirfd, h, O_RDWR | O_NONBLOCK);
	must(fd >= 0, "open_by_handle_at");
	if (argc == 2)
		punch(fd, bytes(argv[0]), bytes(argv[1]));
}

static void do_map(const char *path, uint64_t pos, uint64_t seed, uint64_t len)
{
	int fd = open(path, O_RDWR);
	uint8_t *p;

	must(fd >= 0, path);
	p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)pos);
	must(p != MAP_FAILED, "mmap");
	close(fd);
	fill_pattern(p, pos, len, seed);
	wait_for_end_of_input("mapped");
	must(!munmap(p, len), "munmap");
}

static void do_socket(const char *path, uint64_t size)
{
	char byte = 0, control[CMSG_SPACE(sizeof(int))] = "";
	struct iovec iov = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
	int ends[2], fd = open(path, O_RDWR);

	must(fd >= 0, path);
	must(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends), "socketpair");
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	must(sendmsg(ends[0], &msg, 0) == 1, "sendmsg");
	close(fd);
	wait_for_end_of_input("sent");
	must(recvmsg(ends[1], &msg, 0) == 1, "recvmsg");
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(fd));
	must(!ftruncate(fd, (off_t)size), "ftruncate");
}

static void do_fixed(const char *path)
{
	struct io_uring_params params = {};
	int ring = (int)syscall(SYS_io_uring_setup, 4, &params),
	    fd = open(path, O_RDWR);

	must(ring >= 0, "io_uring_setup");
	must(fd >= 0, path);
	must(!syscall(SYS_io_uring_register, ring, IORING_REGISTER_FILES, &fd,
		      1),
	     "io_uring_register");
	close(fd);
	wait_for_end_of_input("fixed");
}

static void do_poll(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECT);
	struct ring ring;

	must(fd >= 0, path);
	ring_make(&ring, IORING_SETUP_IOPOLL);
	ring.sqes[0].opcode = IORING_OP_READ;
	ring.sqes[0].fd = fd;
	ring.sqes[0].addr = (uintptr_t)aligned(4096);
	ring.sqes[0].len = 4096;
	ring_enter(&ring, 1, 0);
	wait_for_end_of_input("submitted");
}

static void do_transfer(const char *how, char **argv)
{
	int in = open(argv[0], O_RDONLY), out = open(argv[2], O_RDWR), ends[2];
	off_t from = (off_t)bytes(argv[1]), to = (off_t)bytes(argv[3]);
	size_t left = bytes(argv[4]);

	must(in >= 0, argv[0]);
	must(out >= 0, argv[2]);
	must(!pipe(ends), "pipe");
	must(lseek(out, to, SEEK_SET) == to, "lseek");
	while (left) {
		ssize_t n;

		if (!strcmp(how, "copy")) {
			n = copy_file_range(in, &from, out, &to, left, 0);
		} else if (!strcmp(how, "sendfile")) {
			n = sendfile(out, in, &from, left);
		} else {
			n = splice(in, &from, ends[1], NULL,
				   left < 65536 ? left : 65536, 0);
			must(n > 0, "splice into a pipe");
			must(splice(ends[0], NULL, out, &to, (size_t)n, 0) == n,
			     "splice out of it");
		}
		must(n > 0, how);
		left -= (size_t)n;
	}
}

static void do_enforce(const char *device, int on)
{
	unsigned int flags = FS_QUOTA_UDQ_ENFD;

	must(!quotactl(QCMD(on ? Q_XQUOTAON : Q_XQUOTAOFF, USRQUOTA), device, 0,
		       (void *)&flags),
	     "quotactl");
}

static void do_aio(const char *path, char **argv)
{
	uint64_t pos = bytes(argv[0]), len = bytes(argv[2]),
		 block = bytes(argv[3]), n = len / block, i;
	int fd = open(path, O_WRONLY | O_DIRECT);
	struct iocb *iocbs = calloc(n, sizeof(*iocbs)), *iocb;
	struct io_event *events = calloc(n, sizeof(*events));
	uint8_t *buf = aligned(len);
	aio_context_t context = 0;

	must(fd >= 0, path);
	must(!syscall(SYS_io_setup, n, &context), "io_setup");
	fill_pattern(buf, pos, len, bytes(argv[1]));
	for (i = 0; i < n; i++) {
		iocb = &iocbs[i];
		iocb->aio_lio_opcode = IOCB_CMD_PWRITE;
		iocb->aio_fildes = (uint32_t)fd;
		iocb->aio_buf = (uintptr_t)(buf + i * block);
		iocb->aio_nbytes = block;
		iocb->aio_offset = (int64_t)(pos + i * block);
		must(syscall(SYS_io_submit, context, 1, &iocb) == 1,
		     "io_submit");
	}
	puts("submitted");
	fflush(stdout);
	must(syscall(SYS_io_getevents, context, n, n, events, NULL) == (long)n,
	     "io_getevents");
	for (i = 0; i < n; i++)
		if (events[i].res != (int64_t)block)
			die("%s: a write ended with %jd", path,
			    (intmax_t)events[i].res);
}

static void do_atomic(const char *path, char **argv)
{
	uint64_t pos = bytes(argv[0]), len = bytes(argv[2]),
		 block = bytes(argv[3]), done;
	int fd = open(path, O_WRONLY | O_DIRECT);
	uint8_t *buf = aligned(len);
	struct iovec iov;

	must(fd >= 0, path);
	puts("open");
	fflush(stdout);
	fill_pattern(buf, pos, len, bytes(argv[1]));
	for (done = 0; done < len; done += block) {
		iov.iov_base = buf + done;
		iov.iov_len = block;
		must(pwritev2(fd, &iov, 1, (off_t)(pos + done), RWF_ATOMIC) ==
			     (ssize_t)block,
		     "pwritev2");
	}
}

/*
 * A page that is never provided: who accesses it waits for ever. It is behind
 * one that is like any other.
 */
static char *never_provided(void)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register all = {
		.range.len = 4096,
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};
	int faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	char *both = mmap(NULL, 8192, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	must(faults >= 0, "userfaultfd");
	must(both != MAP_FAILED, "mmap");
	must(!ioctl(faults, UFFDIO_API, &api), "UFFDIO_API");
	all.range.start = (uintptr_t)both + 4096;
	must(!ioctl(faults, UFFDIO_REGISTER, &all), "UFFDIO_REGISTER");
	return both + 4096;
}

static void do_stuck(const char *path)
{
	int fd = open(path, O_RDONLY);
	char *never = never_provided();

	must(fd >= 0, path);
	puts("reading");
	fflush(stdout);
	die("%s: a read that can't end gave %zd", path,
	    pread(fd, never, 4096, 0));
}

/* The question is in the page before it, and the answer in the other */
static void do_stuck_fiemap(const char *path)
{
	int fd = open(path, O_ACCMODE);
	struct fiemap *map = (void *)(never_provided() - sizeof(*map));

	must(fd >= 0, path);
	*map = (struct fiemap){
		.fm_length = FIEMAP_MAX_OFFSET,
		.fm_extent_count = 1,
	};
	puts("asking");
	fflush(stdout);
	die("%s: an FS_IOC_FIEMAP that can't end gave %d", path,
	    ioctl(fd, FS_IOC_FIEMAP, map));
}

static void do_flags(const char *path, const char *change)
{
	struct attributes a = {};
	uint64_t flags = bytes(change + 1);

	must(!syscall(SYS_file_getattr, AT_FDCWD, path, &a, sizeof(a), 0),
	     "file_getattr");
	a.xflags = *change == '+' ? a.xflags | flags : a.xflags & ~flags;
	must(!syscall(SYS_file_setattr, AT_FDCWD, path, &a, sizeof(a), 0),
	     "file_setattr");
}

int main(int argc, char **argv)
{
	const char *verb = argc > 1 ? argv[1] : "";

	if (argc == 4 && !strcmp(verb, "truncate")) {
		must(!truncate(argv[2], (off_t)bytes(argv[3])), argv[2]);
	} else if (argc == 4 && !strcmp(verb, "ftruncate")) {
		must(!ftruncate(atoi(argv[2]), (off_t)bytes(argv[3])),
		     "ftruncate");
	} else if (argc == 5 && !strcmp(verb, "punch")) {
		punch(atoi(argv[2]), bytes(argv[3]), bytes(argv[4]));
	} else if (argc == 6 && !strcmp(verb, "write")) {
		uint64_t pos = bytes(argv[3]), len = bytes(argv[5]);
		void *buf = aligned(len);

		fill_pattern(buf, pos, len, bytes(argv[4]));
		must(pwrite(atoi(argv[2]), buf, len, (off_t)pos) ==
			     (ssize_t)len,
		     "pwrite");
	} else if (argc == 4 && !strcmp(verb, "nonblock")) {
		must(open(argv[3], flags_of(argv[2]) | O_NONBLOCK) >= 0,
		     argv[3]);
	} else if (argc >= 3 && !strcmp(verb, "handle")) {
		do_handle(argv[2], argc - 3, argv + 3);
	} else if (argc == 6 && !strcmp(verb, "map")) {
		do_map(argv[2], bytes(argv[3]), bytes(argv[4]), bytes(argv[5]));
	} else if (argc == 4 && !strcmp(verb, "socket")) {
		do_socket(argv[2], bytes(argv[3]));
	} else if (argc == 3 && !strcmp(verb, "stuck")) {
		do_stuck(argv[2]);
	} else if (argc == 3 && !strcmp(verb, "stuck-fiemap")) {
		do_stuck_fiemap(argv[2]);
	} else if (argc == 3 && !strcmp(verb, "fixed")) {
		do_fixed(argv[2]);
	} else if (argc == 3 && !strcmp(verb, "poll")) {
		do_poll(argv[2]);
	} else if (argc == 7 &&
		   (!strcmp(verb, "copy") || !strcmp(verb, "sendfile") ||
		    !strcmp(verb, "splice"))) {
		do_transfer(verb, argv + 2);
	} else if (argc == 6 && !strcmp(verb, "fallocate")) {
		int fd = open(argv[2], O_RDWR);

		must(fd >= 0, argv[2]);
		must(!fallocate(fd, (int)bytes(argv[3]), (off_t)bytes(argv[4]),
				(off_t)bytes(argv[5])),
		     "fallocate");
	} else if (argc == 3 && !strcmp(verb, "swap-boot")) {
		int fd = open(argv[2], O_RDWR);

		must(fd >= 0, argv[2]);
		must(!ioctl(fd, _IO('f', 17)), "EXT4_IOC_SWAP_BOOT");
	} else if (argc == 4 && !strcmp(verb, "enforce")) {
		do_enforce(argv[2], atoi(argv[3]));
	} else if (argc == 7 && !strcmp(verb, "aio")) {
		do_aio(argv[2], argv + 3);
	} else if (argc == 7 && !strcmp(verb, "atomic")) {
		do_atomic(argv[2], argv + 3);
	} else if (argc == 4 && !strcmp(verb, "flags")) {
		do_flags(argv[2], argv[3]);
	} else {
		die("other: see its first lines");
	}
	return 0;
}
