/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Where a bio comes in.
 */
#ifndef FLOOP_SUBMIT_H
#define FLOOP_SUBMIT_H

struct bio;

void floop_submit_bio(struct bio *bio);

#endif /* FLOOP_SUBMIT_H */
