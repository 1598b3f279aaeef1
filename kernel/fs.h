/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Properties of file systems, and which of their files can be mapped.
 */
#ifndef FLOOP_FS_H
#define FLOOP_FS_H

#include <linux/types.h>

#include "guard.h"

struct file;
struct floop_image;
struct inode;

bool floop_fs_is_xfs(const struct inode *inode);
bool floop_fs_is_realtime(struct file *file);
bool floop_fs_is_supported(const struct file *file);
bool floop_fs_has_dsync(const struct file *file);
bool floop_fs_flushes_data(const struct file *file);
bool floop_fs_passes_data_on(const struct floop_image *image);
bool floop_fs_has_quota(const struct file *file);
unsigned int floop_fs_forbidden_flags(const struct floop_image *image);
bool floop_fs_claims_more(struct floop_image *image);
bool floop_fs_is_required(struct floop_image *image);
enum floop_unmapped floop_fs_check(struct floop_image *image);

#endif /* FLOOP_FS_H */
