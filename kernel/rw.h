/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Reads and writes, by the file system.
 */
#ifndef FLOOP_RW_H
#define FLOOP_RW_H

#include <linux/types.h>
#include <linux/uio.h>

struct bio_list;
struct floop_io;

bool floop_rw(struct floop_io *io, bool wait, struct bio_list *batch);
void floop_rw_end(struct floop_io *io, long result, struct bio_list *batch);
void floop_rw_iter(struct floop_io *io, struct iov_iter *iter);
loff_t floop_rw_pos(struct floop_io *io);

#endif /* FLOOP_RW_H */
