// SPDX-License-Identifier: GPL-2.0
/* The hostile operations: which there are, and the threads that do them. */
#include <sys/statfs.h>

#include "torture.h"

static int make_file(const char *name, unsigned int id, int flags)
{
	char path[320];
	int fd;

	snprintf(path, sizeof(path), "%s/torture.%s.%u", dir, name, id);
	unlink(path);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | flags, 0600);
	if (fd < 0)
		fail("%s: %s", path, strerror(errno));
	return fd;
}

/* Some time for I/O in flight to land. */
void linger(struct hostile *h)
{
	usleep((useconds_t)below(&h->r, slow ? 2500 * slow : 4000));
}

int open_image(struct hostile *h, int flags)
{
	int fd;

	if (!below(&h->r, 3))
		flags |= O_NONBLOCK;
	if (!below(&h->r, 3))
		fd = open_by_handle_at(mount_fd, handle, flags | O_CLOEXEC);
	else
		fd = open(image, flags | O_CLOEXEC);
	if (fd < 0 && errno == EAGAIN && openers_wait)
		fd = open(image, (flags & ~O_NONBLOCK) | O_CLOEXEC);
	if (fd < 0)
		fail("open of the image, flags %#x: %s: nobody may be kept out of it",
		     flags, strerror(errno));
	return fd;
}

void pick(struct hostile *h, uint64_t *pos, size_t *len, uint32_t most)
{
	uint64_t blocks, first;

	blocks = grain * (1 + below(&h->r, most > grain ? most / grain : 1));
	first = grain * below(&h->r, (prot / BLOCK - blocks) / grain + 1);
	*pos = first * BLOCK;
	*len = blocks * BLOCK;
}

uint64_t pick_sacrificed(struct hostile *h, size_t *len, uint64_t from)
{
	uint64_t unit = BLOCK * grain;
	uint64_t pos = from + unit * below(&h->r, (size - from) / unit);

	*len = unit * (1 + below(&h->r, 64 / grain));
	if (*len > size - pos)
		*len = size - pos;
	return pos;
}

const struct op ops[OPS] = {
	{ "open", op_open, 12, READS },
	{ "read", op_read, 6, READS },
	{ "read-direct", op_read_direct, 3, READS },
	{ "mmap-read", op_mmap_read, 3, READS },
	{ "truncate", op_truncate, 4, ANY },
	{ "ftruncate", op_ftruncate, 3, ANY },
	{ "hole", op_hole, 5, ANY },
	{ "prealloc", op_prealloc, 4, ANY },
	{ "shift", op_shift, 2, ANY },
	{ "mmap-write", op_mmap_write, 3, ANY },
	{ "move", op_move, 24, EXT4 },
	{ "clone", op_clone, 8, XFS | READS },
	{ "dedupe", op_dedupe, 12, XFS | READS },
	{ "exchange", op_exchange, 8, XFS },
	{ "clone-in", op_clone_in, 3, XFS },
	{ "copy-range", op_copy_range, 3, ANY },
	{ "sync", op_sync, 1, READS },
	{ "trim", op_trim, 1, READS },
	{ "inode", op_inode, 3, READS },
	{ "freeze", op_freeze, 1, READS },
	{ "mapping", op_mapping, 1, READS },
	{ "status", op_status, 1, READS },
};

unsigned int nr_ops = OPS;

static struct {
	atomic_ulong ok, failed;
	atomic_int last;
} counts[OPS];

atomic_ulong operations;

const char *op_name(unsigned int op)
{
	return ops[op].name;
}

unsigned int op_weight(unsigned int op)
{
	return ops[op].weight;
}

void *hostile_thread(void *arg)
{
	struct hostile h = { .id = (unsigned int)(uintptr_t)arg };
	unsigned int mask, i;
	int err;

	h.r.state = mix(seed * 100 + 200 + h.id);
	h.task = task_new("hostile", h.id);
	h.buf = aligned(BUF);
	h.other = aligned(BUF);
	h.copy = make_file("copy", h.id, 0);
	h.donor.fd = make_file("donor", h.id, O_DIRECT);
	h.donor.owner = "the vulture";
	h.donor.file = 1000 + h.id;
	if (ftruncate(h.copy, MOVE_MOST * BLOCK))
		fail("truncate: %s", strerror(errno));
	doing(h.task, "preparing");
	donor_write(&h.donor, h.buf, 0, DONOR_BLOCKS);
	fsync(h.donor.fd);
	h.task->doing = NULL;

	while (!stopping) {
		busy++;
		mask = open_ops;
		if (!mask) {
			busy--;
			usleep(1000);
			continue;
		}
		i = pick_op(&h.r, mask);
		doing(h.task, ops[i].name);
		err = ops[i].run(&h);
		h.task->doing = NULL;
		if (err) {
			counts[i].failed++;
			counts[i].last = -err;
		} else {
			counts[i].ok++;
		}
		operations++;
		busy--;
	}
	doing(h.task, "the last look at the donor");
	donor_check(&h.donor, h.buf, 0, DONOR_BLOCKS);
	h.task->doing = NULL;
	return NULL;
}

/* Those that this file system and the device have */
unsigned int ops_here(void)
{
	unsigned int mask = 0, here, only, i;
	struct statfs fs;

	if (fstatfs(mount_fd, &fs))
		die("%s: %s", dir, strerror(errno));
	here = fs.f_type == 0xef53 ? EXT4 : XFS;
	for (i = 0; i < OPS; i++) {
		only = ops[i].where & (EXT4 | XFS);
		if (only && !(only & here))
			continue;
		if (read_only && !(ops[i].where & READS))
			continue;
		mask |= 1U << i;
	}
	return mask;
}

void report_operations(void)
{
	unsigned int i;

	for (i = 0; i < OPS; i++) {
		unsigned long ok = counts[i].ok, failed = counts[i].failed;

		if (!ok && !failed)
			continue;
		printf("  %-12s %8lu ok %8lu failed", ops[i].name, ok, failed);
		if (failed)
			printf(", the last: %s",
			       strerrorname_np(counts[i].last));
		putchar('\n');
	}
}
