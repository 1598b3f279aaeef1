// SPDX-License-Identifier: GPL-2.0
/* The state of each thread, and the end of all if one of them hangs. */
#include "torture.h"

static struct task tasks[64];
static atomic_int nr_tasks;

struct task *task_new(const char *name, unsigned int id)
{
	struct task *t = &tasks[atomic_fetch_add(&nr_tasks, 1)];

	task_begin(t, name, id);
	return t;
}

static void say_stacks(void)
{
	double now = seconds();
	int i;

	for (i = 0; i < nr_tasks; i++) {
		const char *what = tasks[i].doing;

		if (!what || now - tasks[i].since < 1)
			continue;
		printf("  %s: %s for %.1f s\n", tasks[i].name, what,
		       now - tasks[i].since);
		say_stack(&tasks[i]);
	}
	fflush(stdout);
}

void *watchdog_thread(void *arg)
{
	(void)arg;
	for (;;) {
		double now = seconds();
		int i;

		for (i = 0; i < nr_tasks; i++) {
			const char *what = tasks[i].doing;

			if (!what || now - tasks[i].since < patience)
				continue;
			printf("hanging:\n");
			say_stacks();
			fail("%s: %s: hangs for %.0f s", tasks[i].name, what,
			     now - tasks[i].since);
		}
		usleep(200000);
	}
	return NULL;
}
