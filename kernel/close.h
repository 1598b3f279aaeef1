/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Letting go of an image at the last close of its device.
 */
#ifndef FLOOP_CLOSE_H
#define FLOOP_CLOSE_H

struct floop_image;

void floop_close(struct floop_image *image);

#endif /* FLOOP_CLOSE_H */
