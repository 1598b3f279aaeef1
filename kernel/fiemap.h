/* SPDX-License-Identifier: GPL-2.0 */
/*
 * ->fiemap() of a file, with the inode's lock.
 */
#ifndef FLOOP_FIEMAP_H
#define FLOOP_FIEMAP_H

#include <linux/types.h>

struct fiemap_extent_info;
struct file;
struct inode;

bool floop_fiemap_is_safe(const struct inode *inode);
bool floop_fiemap_is_untried(const struct inode *inode);
void floop_fiemap_try(struct file *file);
int floop_fiemap(struct inode *inode, struct fiemap_extent_info *info, u64 pos,
		 u64 size);

#endif /* FLOOP_FIEMAP_H */
