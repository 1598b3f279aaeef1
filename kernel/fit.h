/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Whether an image is one that can be mapped, whoever has it open.
 */
#ifndef FLOOP_FIT_H
#define FLOOP_FIT_H

#include <linux/types.h>

#include "guard.h"

struct floop_image;

unsigned int floop_fit_never(const struct floop_image *image);
bool floop_fit_is_special(struct floop_image *image);
enum floop_unmapped floop_fit_check(struct floop_image *image);

#endif /* FLOOP_FIT_H */
