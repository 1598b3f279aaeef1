// SPDX-License-Identifier: GPL-2.0
/*
 * Operations that change the image's size or what is allocated to it. They
 * change content only in the sacrificed range and in the tail.
 */
#include <linux/falloc.h>
#include <sys/mman.h>

#include "torture.h"

int op_truncate(struct hostile *h)
{
	return truncate(image, (off_t)(size + below(&h->r, TAIL))) ? -errno : 0;
}

int op_ftruncate(struct hostile *h)
{
	int fd = open_image(h, O_RDWR);

	return ret_close(fd, ftruncate(fd, (off_t)(size + below(&h->r, TAIL))));
}

int op_hole(struct hostile *h)
{
	static const int modes[] = {
		FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
		FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE,
		FALLOC_FL_KEEP_SIZE,
		FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
	};
	size_t len;
	uint64_t pos = pick_sacrificed(h, &len, prot);
	int fd = open_image(h, O_RDWR);

	return ret_close(fd, fallocate(fd, modes[below(&h->r, 4)], (off_t)pos,
				       (off_t)len));
}

/* Fill holes with blocks that read the same. */
int op_prealloc(struct hostile *h)
{
	int fd = open_image(h, O_RDWR);
	uint64_t pos;
	size_t len;

	if (below(&h->r, 2)) {
		pos = 0;
		len = prot;
	} else {
		pick(h, &pos, &len, 64);
	}
	return ret_close(fd, fallocate(fd, FALLOC_FL_KEEP_SIZE, (off_t)pos,
				       (off_t)len));
}

int op_shift(struct hostile *h)
{
	int fd = open_image(h, O_RDWR);
	int mode = below(&h->r, 2) ? FALLOC_FL_COLLAPSE_RANGE :
				     FALLOC_FL_INSERT_RANGE;
	uint64_t pos, len;

	if (ftruncate(fd, (off_t)(size + TAIL)) ||
	    fallocate(fd, 0, (off_t)size, TAIL / 2))
		return ret_close(fd, -1);
	pos = size + BLOCK * below(&h->r, 16);
	len = BLOCK * (1 + below(&h->r, 16));
	return ret_close(fd, fallocate(fd, mode, (off_t)pos, (off_t)len));
}

int op_mmap_write(struct hostile *h)
{
	size_t len;
	uint64_t pos = pick_sacrificed(h, &len, others);
	int fd = open_image(h, O_RDWR);
	void *map = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
			 (off_t)pos);

	if (map == MAP_FAILED)
		return ret_close(fd, -1);
	stamp(map, len, DONATED, pos / SECTOR, rnd(&h->r));
	if (below(&h->r, 2))
		msync(map, len, MS_SYNC);
	munmap(map, len);
	close(fd);
	return 0;
}
