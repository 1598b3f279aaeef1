// SPDX-License-Identifier: GPL-2.0-only
/*
 * Print how fast this CPU's time-stamp counter runs, in kHz, by the clock that
 * QEMU's timers follow.
 */
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#define LOOKS	50

struct moment {
	uint64_t ticks;
	int64_t ns;
};

/* Of several looks at both, the one that took least: nothing came between. */
static struct moment look(void)
{
	struct moment best = { 0 };
	uint64_t least = UINT64_MAX;
	int i;

	for (i = 0; i < LOOKS; i++) {
		uint64_t before = __rdtsc(), after;
		struct timespec now;

		clock_gettime(CLOCK_MONOTONIC, &now);
		after = __rdtsc();
		if (after - before >= least)
			continue;
		least = after - before;
		best.ticks = before + least / 2;
		best.ns = now.tv_sec * 1000000000LL + now.tv_nsec;
	}
	return best;
}

int main(void)
{
	struct moment first = look(), last;

	usleep(50000);
	last = look();
	printf("%.0f\n", (double)(last.ticks - first.ticks) /
	       (double)(last.ns - first.ns) * 1000000);
	return 0;
}
