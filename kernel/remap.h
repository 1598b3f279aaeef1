/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The mapped path: a bio goes on to the disk as it is.
 */
#ifndef FLOOP_REMAP_H
#define FLOOP_REMAP_H

#include <linux/types.h>

struct bio;
struct floop_image;

int floop_remap_init(void);
void floop_remap_exit(void);
int floop_remap_make(struct floop_image *image);
void floop_remap_free(struct floop_image *image);
bool floop_remap(struct floop_image *image, struct bio **bio);

#endif /* FLOOP_REMAP_H */
