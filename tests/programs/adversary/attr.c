// SPDX-License-Identifier: GPL-2.0
/* Operations on what the inode says of the file. */
#include <linux/fs.h>
#include <linux/fsverity.h>
#include <sys/xattr.h>

#include "adversary.h"

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif
#define NR_file_setattr 469
#define NR_setxattrat 463

/* As file_setattr(2) has it, from 6.17 on */
struct attrs {
	uint64_t xflags;
	uint32_t extsize, nextents, projid, cowextsize;
};

static const char *fd_path(int fd)
{
	static char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return path;
}

/* The owner keeps the right to open it in any mode. */
static mode_t some_mode(struct adversary *a)
{
	static const mode_t modes[] = { 0600, 0660, 0666, 0644, 0606, 06777 };

	return modes[below(&a->r, 6)];
}

static int op_chmod(struct adversary *a, int fd)
{
	mode_t mode = some_mode(a);
	int err;

	names_take();
	switch (below(&a->r, 4)) {
	case 0:
		err = ret(fchmod(fd, mode));
		break;
	case 1:
		err = ret(chmod(fd_path(fd), mode));
		break;
	case 2:
		err = ret(chmod(image, mode));
		break;
	default:
		err = ret(syscall(SYS_fchmodat2, fd, "", mode, AT_EMPTY_PATH));
	}
	names_let_go();
	return err;
}

/* Its owner; a container's root may give it away, and takes it back. */
static int op_chown(struct adversary *a, int fd)
{
	uid_t owner = a->id == 2 ? 0 : OWNER;
	uid_t to = a->id == 2 && below(&a->r, 2) ? 1 + (uid_t)below(&a->r, 9) :
						   owner;
	int err;

	names_take();
	err = ret(below(&a->r, 2) ? fchownat(fd, "", to, (gid_t)-1,
					     AT_EMPTY_PATH) :
				    lchown(image, to, (gid_t)-1));
	if (!err && to != owner && lchown(image, owner, (gid_t)-1))
		fail("chown back: %s", strerror(errno));
	names_let_go();
	return err;
}

static int op_utimens(struct adversary *a, int fd)
{
	struct timespec now[2] = { { 0, UTIME_NOW }, { 0, UTIME_NOW } };

	if (below(&a->r, 2))
		now[1] = (struct timespec){ (time_t)below(&a->r, 1 << 30), 0 };
	switch (below(&a->r, 3)) {
	case 0:
		return ret(futimens(fd, now));
	case 1:
		return ret(utimensat(AT_FDCWD, image, now, 0));
	default:
		return ret(utimensat(fd, "", now, AT_EMPTY_PATH));
	}
}

/*
 * Flags that anybody's own file may have, and some that only root may give it:
 * should one of those be granted, it is taken away again.
 */
static int op_setflags(struct adversary *a, int fd)
{
	static const int some[] = {
		FS_NODUMP_FL, FS_NOATIME_FL, FS_SYNC_FL, FS_UNRM_FL,
		FS_SECRM_FL, FS_NOTAIL_FL, FS_TOPDIR_FL, FS_IMMUTABLE_FL,
		FS_APPEND_FL, FS_JOURNAL_DATA_FL, FS_EXTENT_FL, FS_COMPR_FL,
		FS_VERITY_FL, FS_INLINE_DATA_FL, FS_CASEFOLD_FL,
	};
	int old = 0, new, flag;

	if (ioctl(fd, FS_IOC_GETFLAGS, &old))
		return -errno;
	flag = some[below(&a->r, sizeof(some) / sizeof(*some))];
	/* ext4 commits its journal for it, and stops all else meanwhile. */
	if (flag == FS_JOURNAL_DATA_FL && below(&a->r, 8))
		return NOT_TRIED;
	new = old ^ flag;
	if (ioctl(fd, FS_IOC_SETFLAGS, &new))
		return -errno;
	linger(a);
	ioctl(fd, FS_IOC_SETFLAGS, &old);
	return 0;
}

static void some_attrs(struct adversary *a, struct attrs *x)
{
	static const uint32_t some[] = {
		FS_XFLAG_NODUMP, FS_XFLAG_NOATIME, FS_XFLAG_SYNC,
		FS_XFLAG_NODEFRAG, FS_XFLAG_IMMUTABLE, FS_XFLAG_APPEND,
		FS_XFLAG_REALTIME, FS_XFLAG_PREALLOC, FS_XFLAG_EXTSIZE,
		FS_XFLAG_COWEXTSIZE, FS_XFLAG_COWEXTSIZE,
	};

	x->xflags ^= some[below(&a->r, sizeof(some) / sizeof(*some))];
	x->extsize = x->xflags & FS_XFLAG_EXTSIZE ?
		     BLOCK << below(&a->r, 5) : 0;
	x->cowextsize = x->xflags & FS_XFLAG_COWEXTSIZE ?
			BLOCK << below(&a->r, 8) : 0;
	if (!below(&a->r, 4))
		x->projid = (uint32_t)below(&a->r, 100);
}

static int op_setxflags(struct adversary *a, int fd)
{
	struct fsxattr old, new;
	struct attrs x = {};

	if (ioctl(fd, FS_IOC_FSGETXATTR, &old))
		return -errno;
	new = old;
	x.xflags = old.fsx_xflags;
	x.projid = old.fsx_projid;
	some_attrs(a, &x);
	new.fsx_xflags = (uint32_t)x.xflags;
	new.fsx_extsize = x.extsize;
	new.fsx_cowextsize = x.cowextsize;
	new.fsx_projid = x.projid;
	if (ioctl(fd, FS_IOC_FSSETXATTR, &new))
		return -errno;
	linger(a);
	ioctl(fd, FS_IOC_FSSETXATTR, &old);
	return 0;
}

/* The same by a path, or by a descriptor that is one */
static int op_file_setattr(struct adversary *a, int fd)
{
	struct attrs none = {}, x = {};
	bool by_path = below(&a->r, 2);
	int at = by_path ? AT_FDCWD : fd;
	const char *path = by_path ? image : "";
	unsigned int flags = by_path ? 0 : AT_EMPTY_PATH;

	some_attrs(a, &x);
	if (syscall(NR_file_setattr, at, path, &x, sizeof(x), flags))
		return -errno;
	linger(a);
	syscall(NR_file_setattr, at, path, &none, sizeof(none), flags);
	return 0;
}

static int op_xattr(struct adversary *a, int fd)
{
	static const char * const names[] = {
		"user.a", "user.b", "trusted.a", "security.a",
		"security.capability", "user.overlay.opaque",
	};
	struct { uint64_t value; uint32_t size, flags; } arg;
	const char *name = names[below(&a->r, 6)];
	size_t len = below(&a->r, 200);

	arg.value = (uintptr_t)a->buf;
	arg.size = (uint32_t)len;
	arg.flags = 0;
	switch (below(&a->r, 6)) {
	case 0:
		return ret(removexattr(image, name));
	case 1:
		return ret(fsetxattr(fd, name, a->buf, len, 0));
	case 2:
		return ret(fremovexattr(fd, name));
	case 3:
		return ret(syscall(NR_setxattrat, fd, "", AT_EMPTY_PATH, name,
				   &arg, sizeof(arg)));
	case 4:
		return ret(setxattr(image, name, a->buf, len, 0));
	default:
		return ret(setxattr(fd_path(fd), name, a->buf, len, 0));
	}
}

/* Version 2: owner, a user, group, mask, others */
static int op_acl(struct adversary *a, int fd)
{
	uint16_t rw = (uint16_t)(below(&a->r, 2) ? 6 : 4);
	struct {
		uint32_t version;
		struct { uint16_t tag, perm; uint32_t id; } e[5];
	} acl = { 2, { { 1, 6, ~0U }, { 2, rw, OTHER }, { 4, 0, ~0U },
		       { 16, rw, ~0U }, { 32, 0, ~0U } } };
	static const char name[] = "system.posix_acl_access";

	const char *path = below(&a->r, 2) ? image : fd_path(fd);
	int err;

	if (a->id == 2)
		acl.e[1].id = 3;
	names_take();
	if (!below(&a->r, 4))
		err = ret(removexattr(path, name));
	else if (!below(&a->r, 3))
		err = ret(fsetxattr(fd, name, &acl, sizeof(acl), 0));
	else
		err = ret(setxattr(path, name, &acl, sizeof(acl), 0));
	names_let_go();
	return err;
}

/* Refused while the driver has it open to write: it could not be undone. */
static int op_verity(struct adversary *a, int fd)
{
	struct fsverity_enable_arg arg = {
		.version = 1, .hash_algorithm = FS_VERITY_HASH_ALG_SHA256,
		.block_size = 4096,
	};

	/* Not yet attached: it could be granted. */
	if (a->d->how == OVERLAY || !arena->attached)
		return NOT_TRIED;
	if (!ioctl(fd, FS_IOC_ENABLE_VERITY, &arg))
		fail("fs-verity was enabled on an image that is written to");
	return -errno;
}

const struct op attr_ops[] = {
	{ "chmod", op_chmod, 4, 0, true },
	{ "chown", op_chown, 3, 0, true },
	{ "utimens", op_utimens, 3, 0, true },
	{ "setflags", op_setflags, 4, 0, false },
	{ "setxflags", op_setxflags, 4, 0, false },
	{ "file-setattr", op_file_setattr, 4, 0, true },
	{ "xattr", op_xattr, 4, 0, true },
	{ "acl", op_acl, 3, 0, true },
	{ "verity", op_verity, 2, 0, false },
	{},
};
