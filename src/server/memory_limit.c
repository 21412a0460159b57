/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory there is: the machine's, unless a control group allows less (version 2: memory.max;
 * version 1: memory.limit_in_bytes), for the group itself or for one above it.
 */
#include "server/memory_limit.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* The number in a file; UINT64_MAX when there is none: no file, or "max". */
static uint64_t
read_number(const char *path)
{
	FILE *file = fopen(path, "re");
	uint64_t number = UINT64_MAX;
	char text[64];
	char *end;

	if (file == NULL)
		return UINT64_MAX;
	if (fgets(text, sizeof(text), file) != NULL && text[0] >= '0' && text[0] <= '9')
		number = strtoull(text, &end, 10);
	(void)fclose(file);
	return number;
}

/* The least limit of a group and of those above it. group is cut back on the way. */
static uint64_t
least_limit(const char *root, const char *mount, char *group, const char *name)
{
	uint64_t least = UINT64_MAX;
	char path[4096];
	char *slash;

	do {
		slash = strrchr(group, '/');
		(void)snprintf(path, sizeof(path), "%s%s%s%s%s", root, mount, group,
			       slash != NULL && slash[1] == '\0' ? "" : "/", name);
		least = min_u64(least, read_number(path));
		if (slash != NULL)
			*slash = '\0';
	} while (slash != NULL);
	return least;
}

/* A line of /proc/self/cgroup: "0::/group", or "5:memory:/group" of version 1. */
static uint64_t
limit_of_line(const char *root, char *line)
{
	char *controllers = strchr(line, ':');
	char *group = controllers != NULL ? strchr(controllers + 1, ':') : NULL;

	if (group == NULL)
		return UINT64_MAX;
	*group++ = '\0';
	group[strcspn(group, "\n")] = '\0';
	if (strcmp(controllers, ":") == 0)
		return least_limit(root, "/sys/fs/cgroup", group, "memory.max");
	if (strcmp(controllers, ":memory") == 0)
		return least_limit(root, "/sys/fs/cgroup/memory", group, "memory.limit_in_bytes");
	return UINT64_MAX;
}

uint64_t
memory_there_is(const char *root)
{
	long pages = sysconf(_SC_PHYS_PAGES);
	long page = sysconf(_SC_PAGESIZE);
	uint64_t bytes = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : UINT64_MAX;
	char line[4096];
	FILE *file;

	(void)snprintf(line, sizeof(line), "%s/proc/self/cgroup", root);
	file = fopen(line, "re");
	if (file == NULL)
		return bytes;
	while (fgets(line, sizeof(line), file) != NULL)
		bytes = min_u64(bytes, limit_of_line(root, line));
	(void)fclose(file);
	return bytes;
}
