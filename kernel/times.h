/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The image's times, which mapped writes don't update.
 */
#ifndef FLOOP_TIMES_H
#define FLOOP_TIMES_H

#include <linux/compiler.h>
#include <linux/types.h>
#include <linux/workqueue.h>

struct floop_image;

/**
 * struct floop_times - the times of an image
 * @due: mapped writes have come since the times were updated
 * @work: updates the times
 */
struct floop_times {
	bool due;
	struct delayed_work work;
};

void floop_times_init_image(struct floop_image *image);
void floop_times_exit_image(struct floop_image *image);
void floop_times_touch(struct floop_image *image);
void floop_times_sync(struct floop_image *image);

/**
 * floop_times_are_due() - do the times have to be updated?
 * @times: the times of an image
 *
 * Context: Any.
 * Return: true if they have to be, or are being updated.
 */
static inline bool floop_times_are_due(struct floop_times *times)
{
	return READ_ONCE(times->due) || work_busy(&times->work.work);
}

/**
 * floop_times_wrote() - note a mapped write
 * @times: the times of its image
 *
 * Context: Any. Writes to the shared word only for the first write of many.
 */
static inline void floop_times_wrote(struct floop_times *times)
{
	if (!READ_ONCE(times->due))
		WRITE_ONCE(times->due, true);
}

#endif /* FLOOP_TIMES_H */
