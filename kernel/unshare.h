/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Have xfs see that a file that has been cloned shares no block any more.
 */
#ifndef FLOOP_UNSHARE_H
#define FLOOP_UNSHARE_H

#include <linux/types.h>

struct floop_fill;
struct floop_image;
struct floop_todo;

void floop_unshare_init(struct floop_fill *fill);
void floop_unshare_reset(struct floop_fill *fill);
void floop_unshare_put_off(struct floop_fill *fill);
bool floop_unshare_is_due(struct floop_image *image);
unsigned long floop_unshare_until(struct floop_image *image);
bool floop_unshare(struct floop_image *image, struct floop_todo *todo);
void floop_unshare_soon(struct floop_image *image);
bool floop_unshare_serves(struct floop_image *image);

#endif /* FLOOP_UNSHARE_H */
