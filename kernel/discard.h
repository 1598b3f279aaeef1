/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Discard and write-zeroes.
 */
#ifndef FLOOP_DISCARD_H
#define FLOOP_DISCARD_H

struct floop_io;
struct work_struct;

void floop_discard(struct floop_io *io);
void floop_discard_unsupported(struct work_struct *work);

#endif /* FLOOP_DISCARD_H */
