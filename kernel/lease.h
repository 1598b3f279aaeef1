/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The image's own descriptor, and the leases that keep others from opening the
 * image without our notice.
 */
#ifndef FLOOP_LEASE_H
#define FLOOP_LEASE_H

#include <linux/types.h>

#include "guard.h"

struct file;
struct floop_image;

bool floop_lease_is_known(struct file *file);
struct file *floop_lease_open(struct file *file, bool read_only);
enum floop_unmapped floop_leases_take(struct floop_image *image);
void floop_leases_give_back(struct floop_image *image);

#endif /* FLOOP_LEASE_H */
