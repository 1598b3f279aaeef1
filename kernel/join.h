/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Writes that are next to each other become one call to the file system.
 */
#ifndef FLOOP_JOIN_H
#define FLOOP_JOIN_H

struct floop_io;
struct llist_node;

struct floop_io *floop_join(struct floop_io *io, struct llist_node **next);

#endif /* FLOOP_JOIN_H */
