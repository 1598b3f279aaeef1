// SPDX-License-Identifier: GPL-2.0
/*
 * The vulture takes what the image gives up: files of its own hold the blocks
 * that the image had, and have to stay what they are.
 */
#include "torture.h"

#define RESERVE (40U << 20)	/* of the file system, that is left free */
#define CARCASSES 96U
#define MOST_BLOCKS 128U	/* of each */

static void carcass_path(char *path, size_t len, uint32_t i)
{
	snprintf(path, len, "%s/torture.vulture.%u", dir, i);
}

/* Takes freed blocks, and checks that they stay its own. */
void *vulture_thread(void *arg)
{
	static struct carcass all[CARCASSES];
	struct rng r = {  mix(seed * 100 + 99)  };
	struct task *t = task_new("vulture", 0);
	uint8_t *buf = aligned(BUF);
	char path[320];
	uint32_t i;

	(void)arg;
	while (!stopping) {
		i = (uint32_t)below(&r, CARCASSES);
		doing(t, "taking what is freed");
		if (!all[i].len && is_room(RESERVE)) {
			carcass_path(path, sizeof(path), i);
			carcass_write(&all[i], path, i, MOST_BLOCKS, &r, buf);
			t->doing = NULL;
			usleep((useconds_t)below(&r, 20000));
			continue;
		}
		/* Without room one has to go for the next. */
		while (!all[i].len)
			i = (i + 1) % CARCASSES;
		carcass_path(path, sizeof(path), i);
		carcass_check(&all[i], path, "the vulture", i, buf);
		if (below(&r, 3)) {
			unlink(path);
			all[i].len = 0;
		}
		t->doing = NULL;
		usleep((useconds_t)below(&r, 10000));
	}
	return NULL;
}
