// SPDX-License-Identifier: GPL-2.0
/*
 * ragged DEVICE POSITION SIZE: direct I/O from and to memory in pieces of 512
 * bytes with gaps between them, whatever the device's sectors. It must work,
 * byte for byte. The range is overwritten.
 */
#include <fcntl.h>
#include <sys/uio.h>

#include "common.h"

#define PIECE	512
#define STRIDE	1536

int main(int argc, char **argv)
{
	struct iovec vecs[64];
	uint64_t pos, size, done;
	unsigned int i, nr, n;
	uint8_t *pieces, *whole;
	ssize_t ret;
	int fd;

	if (argc != 4)
		die("ragged DEVICE POSITION SIZE");
	pos = bytes(argv[2]);
	size = bytes(argv[3]);
	fd = open(argv[1], O_RDWR | O_DIRECT | O_CLOEXEC);
	if (fd < 0)
		die("%s: %s", argv[1], strerror(errno));
	pieces = aligned(sizeof(vecs) / sizeof(*vecs) * STRIDE);
	whole = aligned(sizeof(vecs) / sizeof(*vecs) * PIECE);
	nr = sizeof(vecs) / sizeof(*vecs);
	n = nr * PIECE;
	for (i = 0; i < nr; i++)
		vecs[i] = (struct iovec){ pieces + i * STRIDE, PIECE };

	for (done = 0; done < size; done += n, pos += n) {
		fill_pattern(whole, pos, n, 7);
		for (i = 0; i < nr; i++)
			memcpy(vecs[i].iov_base, whole + i * PIECE, PIECE);
		ret = pwritev(fd, vecs, (int)nr, (off_t)pos);
		if (ret != (ssize_t)n)
			die("write at %ju: %zd, %s", (uintmax_t)pos, ret,
			    ret < 0 ? strerror(errno) : "");
		memset(whole, 0, n);
		ret = pread(fd, whole, n, (off_t)pos);
		if (ret != (ssize_t)n || check_pattern(whole, pos, n, 7) >= 0)
			die("at %ju: not what was written", (uintmax_t)pos);
		memset(pieces, 0, nr * STRIDE);
		ret = preadv(fd, vecs, (int)nr, (off_t)pos);
		if (ret != (ssize_t)n)
			die("read at %ju: %zd, %s", (uintmax_t)pos, ret,
			    ret < 0 ? strerror(errno) : "");
		for (i = 0; i < nr; i++)
			if (memcmp(vecs[i].iov_base, whole + i * PIECE, PIECE))
				die("at %ju: not what is there",
				    (uintmax_t)pos);
	}
	return 0;
}
