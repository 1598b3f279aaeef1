/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Flushes.
 */
#ifndef FLOOP_FLUSH_H
#define FLOOP_FLUSH_H

struct llist_node;

int floop_flush(struct llist_node *node);
void floop_flush_fail(struct llist_node *node, int err);

#endif /* FLOOP_FLUSH_H */
