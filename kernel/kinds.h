/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the chunks of the fill are where they have no data: holes, or unwritten.
 */
#ifndef FLOOP_KINDS_H
#define FLOOP_KINDS_H

#include <linux/types.h>

#include "image.h"
#include "look.h"

struct floop_batch;
struct floop_todo;

bool floop_kinds_ask(struct floop_batch *batch, struct floop_todo *todo,
		     sector_t sector);
void floop_kinds_note(struct floop_batch *batch, struct floop_todo *todo,
		      sector_t sector, sector_t end, enum floop_kind kind);
void floop_kinds_skip(struct floop_batch *batch, struct floop_todo *todo,
		      sector_t sector);
void floop_kinds_end(struct floop_batch *batch, struct floop_todo *todo,
		     sector_t sector);
sector_t floop_kinds_pass(struct floop_batch *batch, struct floop_todo *todo,
			  sector_t sector, sector_t end);
void floop_kinds_forget(struct floop_todo *todo, unsigned long first,
			unsigned long end);
enum floop_cause floop_kinds_cause(struct floop_image *image, sector_t sector,
				   sector_t nr);

#endif /* FLOOP_KINDS_H */
