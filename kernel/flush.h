/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Flushes.
 */
#ifndef FLOOP_FLUSH_H
#define FLOOP_FLUSH_H

struct llist_node;

void floop_flush(struct llist_node *node);

#endif /* FLOOP_FLUSH_H */
