/* SPDX-License-Identifier: GPL-2.0 */
/* A number of a device's loop/stat in sysfs. */
#ifndef TESTS_LOOPSTAT_H
#define TESTS_LOOPSTAT_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* @folder: the device's loop/; false if it has none, or @name isn't there */
static inline bool loopstat(const char *folder, const char *name, uint64_t *n)
{
	char path[300], word[32];
	bool found = false;
	FILE *file;

	snprintf(path, sizeof(path), "%s/stat", folder);
	file = fopen(path, "re");
	if (!file)
		return false;
	while (!found && fscanf(file, "%31s %" SCNu64, word, n) == 2)
		found = !strcmp(word, name);
	fclose(file);
	return found;
}

#endif
