/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Our own changes of the image's blocks.
 */
#ifndef FLOOP_CHANGE_H
#define FLOOP_CHANGE_H

#include <linux/types.h>

struct floop_image;

bool floop_change_begin(struct floop_image *image);
void floop_change_end(struct floop_image *image, sector_t sector, sector_t nr);
bool floop_change_hole_begin(struct floop_image *image, sector_t sector,
			     sector_t nr);
void floop_change_hole_end(struct floop_image *image, sector_t sector,
			   sector_t nr);

#endif /* FLOOP_CHANGE_H */
