/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Direct I/O for memory that it can't take as it is.
 */
#ifndef FLOOP_BOUNCE_H
#define FLOOP_BOUNCE_H

struct floop_io;

void floop_bounce(struct floop_io *io);

#endif /* FLOOP_BOUNCE_H */
