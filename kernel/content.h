/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What an image's content says of the sectors it was made for.
 */
#ifndef FLOOP_CONTENT_H
#define FLOOP_CONTENT_H

#include <linux/types.h>

struct file;

bool floop_content_needs_small(struct file *file, loff_t offset,
			       unsigned int block_size);

#endif /* FLOOP_CONTENT_H */
