// SPDX-License-Identifier: GPL-2.0
/*
 * memalign [-r] DEVICE: direct I/O from and to memory at every alignment. What
 * the device's queue/dma_alignment allows must work, byte for byte; what it
 * doesn't must be EINVAL and change nothing, or work as well: newer kernels
 * don't check a short I/O that needs no splitting. The device is overwritten;
 * with -r it is only read.
 */
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>

#include "common.h"

static uint64_t queue_value(int fd, const char *name)
{
	unsigned long long v;
	char path[128];
	struct stat st;
	FILE *f;

	fstat(fd, &st);
	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/queue/%s",
		 major(st.st_rdev), minor(st.st_rdev), name);
	f = fopen(path, "r");
	if (!f || fscanf(f, "%llu", &v) != 1)
		die("%s: %s", path, strerror(errno));
	fclose(f);
	return v;
}

int main(int argc, char **argv)
{
	static const unsigned int shifts[] = {
		0, 1, 2, 3, 4, 8, 12, 16, 32, 64, 128, 256, 508, 512, 1024,
		2048, 3584,
	};
	unsigned int i, worked = 0, refused = 0, sector;
	uint8_t *ours, *theirs;
	const char *path;
	int only_read;
	uint64_t mask, pos = 0;
	int fd, ssz;

	only_read = argc == 3 && !strcmp(argv[1], "-r");
	if (argc != 2 + only_read)
		die("memalign [-r] DEVICE");
	path = argv[1 + only_read];
	fd = open(path, (only_read ? O_RDONLY : O_RDWR) | O_DIRECT | O_CLOEXEC);
	if (fd < 0 || ioctl(fd, BLKSSZGET, &ssz))
		die("%s: %s", path, strerror(errno));
	sector = (unsigned int)ssz;
	mask = queue_value(fd, "dma_alignment");
	ours = aligned(256 << 10);
	theirs = aligned(256 << 10);
	for (i = 0; i < sizeof(shifts) / sizeof(*shifts); i++) {
		unsigned int sizes[] = { sector, sector * 3, 128 << 10 };
		unsigned int s = shifts[i], k;

		for (k = 0; k < 3; k++) {
			size_t n = sizes[k];
			int may, ok = !(s & mask);
			ssize_t w, r;

			/*
			 * What is there before, by memory as aligned as it gets
			 */
			fill_pattern(theirs, pos, n, 1000 + i);
			if (only_read ?
			    pread(fd, theirs, n, (off_t)pos) != (ssize_t)n :
			    pwrite(fd, theirs, n, (off_t)pos) != (ssize_t)n)
				die("aligned I/O of %zu: %s", n,
				    strerror(errno));
			memset(ours, 0, n + 8192);
			r = pread(fd, ours + s, n, (off_t)pos);
			may = ok || r >= 0;
			if (may ? r != (ssize_t)n : errno != EINVAL)
				die("read of %zu into memory %u past a page, dma_alignment %ju: %zd, %s",
				    n, s, (uintmax_t)mask, r,
				    r < 0 ? strerror(errno) : "");
			if (may && memcmp(ours + s, theirs, n))
				die("read of %zu into memory %u past a page: wrong data",
				    n, s);
			if (may && (ours[s + n] || (s && ours[s - 1])))
				die("read of %zu into memory %u past a page: wrote outside of it",
				    n, s);
			if (only_read) {
				worked += may;
				refused += !may;
				continue;
			}
			memset(ours, 0x11 * (i + 1), n + 8192);
			w = pwrite(fd, ours + s, n, (off_t)pos);
			may = ok || w >= 0;
			if (may ? w != (ssize_t)n : errno != EINVAL)
				die("write of %zu from memory %u past a page, dma_alignment %ju: %zd, %s",
				    n, s, (uintmax_t)mask, w,
				    w < 0 ? strerror(errno) : "");
			if (may)
				memcpy(theirs, ours + s, n);
			memset(ours, 0, n + 8192);
			if (pread(fd, ours, n, (off_t)pos) != (ssize_t)n ||
			    memcmp(ours, theirs, n))
				die("write of %zu from memory %u past a page: wrong data on the device",
				    n, s);
			worked += may;
			refused += !may;
		}
	}

	/*
	 * A sector in pieces: newer kernels take it, older ones refuse it;
	 * wrong data is never right
	 */
	for (i = sector / 8; i < sector && !only_read; i += sector / 8) {
		struct iovec iov[3] = {
			{ ours, i },
			{ ours + 8192, sector - i },
			{ ours + 16384, sector },
		};
		ssize_t n;

		if (i & mask)
			continue;
		fill_pattern(theirs, pos, 2 * sector, 7 + i);
		memcpy(ours, theirs, i);
		memcpy(ours + 8192, theirs + i, sector - i);
		memcpy(ours + 16384, theirs + sector, sector);
		n = pwritev(fd, iov, 3, (off_t)pos);
		if (n < 0 && errno == EINVAL) {
			refused++;
			continue;
		}
		if (n != 2 * (ssize_t)sector)
			die("writev in pieces of %u: %zd, %s", i, n,
			    n < 0 ? strerror(errno) : "short");
		memset(ours, 0, 32768);
		if (preadv(fd, iov, 3, (off_t)pos) != n ||
		    memcmp(ours, theirs, i) ||
		    memcmp(ours + 8192, theirs + i, sector - i) ||
		    memcmp(ours + 16384, theirs + sector, sector))
			die("readv in pieces of %u: wrong data", i);
		worked++;
	}
	printf("%s: dma_alignment %ju, sector %u: %u right, %u refused\n",
	       argv[1], (uintmax_t)mask, sector, worked, refused);
	return 0;
}
