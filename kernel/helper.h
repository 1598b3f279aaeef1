/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The helper: a process in whose memory the file system lists a file's extents.
 */
#ifndef FLOOP_HELPER_H
#define FLOOP_HELPER_H

#include <linux/fs.h>
#include <linux/ioctl.h>
#include <linux/moduleparam.h>
#include <linux/types.h>

struct fiemap_extent;
struct vm_area_struct;

/* An ioctl of the control node, with the address where it is mapped. */
#define FLOOP_CTL_HELP		_IO('L', 0x8f)

/* What the helper maps of the control node, in bytes. */
#define FLOOP_HELPER_BYTES	65536UL

extern const struct kernel_param_ops floop_helper_ops;

bool floop_helper_is_set(void);
bool floop_helper_is_there(void);
int floop_helper_ask(struct file *file, u64 pos, u64 size,
		     struct fiemap_extent *found, unsigned int max);
void floop_helper_settle(void);
int floop_helper_mmap(struct file *control, struct vm_area_struct *vma);
long floop_helper_serve(struct file *control, unsigned long buffer);
void floop_helper_release(struct file *control);
int floop_helper_init(void);
void floop_helper_exit(void);

#endif /* FLOOP_HELPER_H */
