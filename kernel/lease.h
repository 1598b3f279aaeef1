/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The lease, which notices every other opener of the image and every change of
 * its blocks, and the driver's own descriptors.
 */
#ifndef FLOOP_LEASE_H
#define FLOOP_LEASE_H

#include <linux/types.h>

#include "guard.h"

struct file;
struct floop_image;

struct file *floop_lease_open(struct file *file, bool read_only);
struct file *floop_lease_open_sync(struct file *file);
enum floop_unmapped floop_lease_take(struct floop_image *image);
void floop_lease_drop(struct floop_image *image);
unsigned int floop_lease_readers(struct floop_image *image);
bool floop_lease_has_others(struct floop_image *image);

#endif /* FLOOP_LEASE_H */
