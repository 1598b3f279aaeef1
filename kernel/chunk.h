/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Chunks: writes to a hole with zeroes around them.
 */
#ifndef FLOOP_CHUNK_H
#define FLOOP_CHUNK_H

#include <linux/types.h>

struct floop_ahead;
struct floop_ask;
struct floop_io;
struct floop_range;

void floop_chunk_init(void);
void floop_chunk_exit(void);
struct floop_io *floop_chunk_make(struct floop_io *io,
				  struct floop_range *range);
void floop_chunk_map(struct floop_ask *ask);
void floop_chunk_forget(struct floop_ahead *ahead);
bool floop_chunk_enter(struct floop_io *io);
void floop_chunk_leave(struct floop_io *io);

#endif /* FLOOP_CHUNK_H */
