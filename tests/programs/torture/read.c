// SPDX-License-Identifier: GPL-2.0
/* Operations that read the image by its file, or only open it. */
#include <sys/mman.h>

#include "torture.h"

int op_open(struct hostile *h)
{
	static const int modes[] = { O_RDONLY, O_RDWR, O_WRONLY };
	int fd = open_image(h, modes[below(&h->r, 3)] |
				       (below(&h->r, 3) ? 0 : O_DIRECT));

	if (!below(&h->r, 8))
		usleep((useconds_t)below(&h->r, 3000));
	close(fd);
	return 0;
}

static int read_file(struct hostile *h, int how)
{
	static const char * const hows[] = {
		"read of the file", "direct read of the file", "mapped file",
	};
	uint32_t from[BUF / SECTOR];
	uint64_t pos;
	size_t len;
	int fd, n;

	pick(h, &pos, &len, slow ? 128 : 32);
	sample(from, done, pos, len);
	fd = open_image(h, O_RDONLY | (how == 1 ? O_DIRECT : 0));
	for (n = 0; n < 3; n++) {
		unsigned int stale;

		if (how == 2) {
			void *buf = mmap(NULL, len, PROT_READ, MAP_SHARED, fd,
					 (off_t)pos);
			if (buf == MAP_FAILED)
				return ret_close(fd, -1);
			/* It goes on changing. */
			memcpy(h->buf, buf, len);
			munmap(buf, len);
		} else if (pread(fd, h->buf, len, (off_t)pos) != (ssize_t)len) {
			fail("%s: %s", hows[how], strerror(errno));
		}
		stale = check_file(hows[how], h->buf, pos, len, from, issued,
				   n == 2 || how == 1);
		if (stale)
			stale_for_a_moment++;
		else if (n || below(&h->r, 2))
			break;
		/*
		 * Again, when all that was in flight has landed: what is cached
		 * now has to be new.
		 */
		if (n)
			usleep(300000 + slow * 5000);
		else
			linger(h);
		if (!stale)
			sample(from, done, pos, len);
	}
	close(fd);
	return 0;
}

int op_read(struct hostile *h)
{
	return read_file(h, 0);
}

int op_read_direct(struct hostile *h)
{
	return read_file(h, 1);
}

int op_mmap_read(struct hostile *h)
{
	return read_file(h, 2);
}
