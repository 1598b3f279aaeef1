/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Direct I/O for memory that it can't take as it is.
 */
#ifndef FLOOP_BOUNCE_H
#define FLOOP_BOUNCE_H

struct floop_image;
struct floop_io;

void floop_bounce(struct floop_io *io);
int floop_bounce_make(struct floop_image *image);
void floop_bounce_free(struct floop_image *image);
int floop_bounce_init(void);
void floop_bounce_exit(void);

#endif /* FLOOP_BOUNCE_H */
