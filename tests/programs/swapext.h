/* SPDX-License-Identifier: GPL-2.0 */
/*
 * XFS_IOC_SWAPEXT, the old exchange of whole files, as in the kernel's
 * xfs_fs.h. What the kernel looks at is named.
 */
#ifndef TESTS_SWAPEXT_H
#define TESTS_SWAPEXT_H

#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

struct xfs_time {
	long tv_sec;
	int32_t tv_nsec;
};

struct swapext {
	int64_t version, target, donor, offset, length;
	char pad[16];
	struct {
		uint64_t ino;
		uint16_t mode, nlink;
		uint32_t uid, gid, rdev;
		int32_t blksize;
		int64_t size;
		struct xfs_time atime, mtime, ctime;
		char rest[48];
	} stat;
};

#define XFS_SWAPEXT	_IOWR('X', 109, struct swapext)

/* The whole of file @target, which is @st, is to be exchanged with @donor. */
static inline struct swapext swapext_of(int target, const struct stat *st,
					int donor)
{
	_Static_assert(sizeof(struct swapext) ==
		       (sizeof(long) == 8 ? 192 : 164), "as the kernel has it");

	return (struct swapext) {
		.target = target,
		.donor = donor,
		.length = st->st_size,
		.stat = {
			.ino = st->st_ino,
			.size = st->st_size,
			.mtime = { st->st_mtim.tv_sec,
				   (int32_t)st->st_mtim.tv_nsec },
			.ctime = { st->st_ctim.tv_sec,
				   (int32_t)st->st_ctim.tv_nsec },
		},
	};
}

#endif
