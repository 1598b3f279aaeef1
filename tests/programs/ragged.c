// SPDX-License-Identifier: GPL-2.0
/*
 * ragged DEVICE POSITION SIZE: direct I/O from and to memory in pieces of 512
 * bytes with gaps between them, whatever the device's sectors; also adjacent
 * writes, submitted together, and memory that begins within a page. It must
 * work, byte for byte. The range is overwritten, and the 64 KiB behind it.
 */
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "common.h"

#define PIECE	512
#define STRIDE	1536
#define BLOCK	4096
#define TOGETHER 16
#define PIECES	(BLOCK / PIECE)

/*
 * Writes of a block each, in pieces. The first piece begins with a page and the
 * last one ends with a page, so from one write to the next there is no gap.
 */
static void together(int fd, uint64_t pos)
{
	const size_t each = 4 * BLOCK;
	uint8_t *memory = aligned(TOGETHER * each);
	uint8_t *whole = aligned(TOGETHER * BLOCK);
	struct iovec vecs[TOGETHER][PIECES];
	struct iocb iocbs[TOGETHER], *list[TOGETHER];
	struct io_event events[TOGETHER];
	aio_context_t ctx = 0;
	unsigned int n, i;

	fill_pattern(whole, pos, TOGETHER * BLOCK, 8);
	if (syscall(SYS_io_setup, TOGETHER, &ctx))
		die("io_setup: %s", strerror(errno));
	for (n = 0; n < TOGETHER; n++) {
		for (i = 0; i < PIECES; i++) {
			size_t at = i < PIECES - 1 ? i * STRIDE : each - PIECE;

			vecs[n][i] = (struct iovec){
				memory + n * each + at, PIECE
			};
			memcpy(vecs[n][i].iov_base,
			       whole + n * BLOCK + i * PIECE, PIECE);
		}
		iocbs[n] = (struct iocb){
			.aio_lio_opcode = IOCB_CMD_PWRITEV,
			.aio_fildes = (uint32_t)fd,
			.aio_buf = (uintptr_t)vecs[n],
			.aio_nbytes = PIECES,
			.aio_offset = (int64_t)(pos + n * BLOCK),
		};
		list[n] = &iocbs[n];
	}
	if (syscall(SYS_io_submit, ctx, TOGETHER, list) != TOGETHER)
		die("io_submit: %s", strerror(errno));
	if (syscall(SYS_io_getevents, ctx, TOGETHER, TOGETHER, events,
		    NULL) != TOGETHER)
		die("io_getevents: %s", strerror(errno));
	for (n = 0; n < TOGETHER; n++)
		if (events[n].res != BLOCK)
			die("a write among others: %lld",
			    (long long)events[n].res);
	memset(whole, 0, TOGETHER * BLOCK);
	if (pread(fd, whole, TOGETHER * BLOCK, (off_t)pos) !=
	    TOGETHER * BLOCK ||
	    check_pattern(whole, pos, TOGETHER * BLOCK, 8) >= 0)
		die("at %ju: not what was written together", (uintmax_t)pos);
	syscall(SYS_io_destroy, ctx);
}

int main(int argc, char **argv)
{
	struct iovec vecs[64];
	uint64_t pos, size, done;
	unsigned int i, nr, n;
	uint8_t *pieces, *whole, *shifted;
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
	/* Each block is in two pages. */
	shifted = aligned(n + BLOCK) + BLOCK / 2;
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
		/* Not read: null_blk then finds zeroes where a page begins. */
		fill_pattern(shifted, pos, n, 9);
		ret = pwrite(fd, shifted, n, (off_t)pos);
		memset(whole, 0, n);
		if (ret != (ssize_t)n ||
		    pread(fd, whole, n, (off_t)pos) != (ssize_t)n ||
		    check_pattern(whole, pos, n, 9) >= 0)
			die("at %ju: not what was written from within pages",
			    (uintmax_t)pos);
	}
	together(fd, pos);
	return 0;
}
