// SPDX-License-Identifier: GPL-2.0
/*
 * hog SIZE: keep SIZE bytes of memory in use, every page of it again and again,
 * until killed.
 */
#include "common.h"

int main(int argc, char **argv)
{
	uint64_t size, i;
	volatile char *p;

	if (argc != 2)
		die("hog SIZE");
	size = bytes(argv[1]);
	p = aligned(size);
	for (;;) {
		for (i = 0; i < size; i += 4096)
			p[i]++;
		usleep(1000);
	}
}
