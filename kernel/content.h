/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What an image's content says of the sectors it was made for.
 */
#ifndef FLOOP_CONTENT_H
#define FLOOP_CONTENT_H

#include <linux/types.h>

struct floop_image;

bool floop_content_takes(struct floop_image *image, unsigned int block_size);

#endif /* FLOOP_CONTENT_H */
