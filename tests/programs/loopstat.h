/* SPDX-License-Identifier: GPL-2.0 */
/* A number of a device's loop/stat in sysfs. */
#ifndef TESTS_LOOPSTAT_H
#define TESTS_LOOPSTAT_H

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* @folder: the device's loop/; false if it has none, or @name isn't there */
static inline bool loopstat(const char *folder, const char *name, uint64_t *n)
{
	char path[300], buf[512], *line = buf, *next;
	ssize_t got;
	int fd;

	snprintf(path, sizeof(path), "%s/stat", folder);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	got = read(fd, buf, sizeof(buf) - 1);
	close(fd);
	if (got <= 0)
		return false;
	buf[got] = '\0';
	while ((next = strchr(line, '\n'))) {
		char *space = strchr(line, ' ');

		*next = '\0';
		if (space) {
			*space = '\0';
			if (!strcmp(line, name)) {
				*n = strtoull(space + 1, NULL, 10);
				return true;
			}
		}
		line = next + 1;
	}
	return false;
}

#endif
