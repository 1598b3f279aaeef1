/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Whether an image is one that can be mapped, whoever has it open.
 */
#ifndef FLOOP_FIT_H
#define FLOOP_FIT_H

#include <linux/types.h>

#include "guard.h"

struct floop_image;

/**
 * enum floop_mapping - which images are mapped unless told otherwise
 * @FLOOP_MAPPING_OFF: none
 * @FLOOP_MAPPING_ON: all that can be
 * @FLOOP_MAPPING_AUTO: of these, not those on xfs that are written to
 */
enum floop_mapping {
	FLOOP_MAPPING_OFF,
	FLOOP_MAPPING_ON,
	FLOOP_MAPPING_AUTO,
};

extern enum floop_mapping floop_fit_default;

bool floop_fit_by_default(const struct floop_image *image);
unsigned int floop_fit_never(const struct floop_image *image);
bool floop_fit_is_special(struct floop_image *image);
enum floop_unmapped floop_fit_check(struct floop_image *image);

#endif /* FLOOP_FIT_H */
