/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file becomes a spare one by being renamed, which is synced before anything of it is overwritten: else a
 * crash could bring back the segment's name without its content.
 */
#include "spare.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static void
spare_path(char path[PATH_MAX_SIZE], uint64_t id)
{
	(void)snprintf(path, PATH_MAX_SIZE, LOG_FOLDER "/%010llu" SPARE_SUFFIX,
		       (unsigned long long)id);
}

int
spares_put(struct spares *s, uint64_t id, uint64_t octets, uint64_t least)
{
	bool keep = !s->unwanted && s->count < SPARES_MAX && octets >= least;
	char path[PATH_MAX_SIZE];
	char spare[PATH_MAX_SIZE];
	int error;

	segment_path(path, id);
	spare_path(spare, id);
	error = keep ? disk_rename(s->disk, path, spare) : disk_unlink(s->disk, path);
	if (error == 0)
		error = disk_sync_dir(s->disk, LOG_FOLDER);
	if (error == 0 && keep)
		s->ids[s->count++] = id;
	return error;
}

bool
spares_adopt(struct spares *s, const char *name, uint64_t least)
{
	uint64_t id = strtoull(name, NULL, 10);
	char path[PATH_MAX_SIZE];
	struct disk_file *file;
	int64_t size;

	spare_path(path, id);
	if (s->count == SPARES_MAX || strcmp(path + strlen(LOG_FOLDER) + 1, name) != 0 ||
	    disk_open(s->disk, path, DISK_READ, &file) != 0)
		return false;
	size = disk_size(file);
	disk_close(&file);
	if (size < 0 || (uint64_t)size < least)
		return false;
	s->ids[s->count++] = id;
	return true;
}

int
spares_take(struct spares *s, struct disk_file **file, char path[PATH_MAX_SIZE])
{
	if (s->count == 0)
		return -ENOENT;
	spare_path(path, s->ids[--s->count]);
	return disk_open(s->disk, path, DISK_WRITE, file);
}

void
spares_want(struct spares *s, bool want)
{
	s->unwanted = !want;
	while (s->unwanted && s->count > 0) {
		char path[PATH_MAX_SIZE];

		spare_path(path, s->ids[--s->count]);
		if (disk_unlink(s->disk, path) < 0)
			log_warn("store: cannot remove %s, which is not in use", path);
	}
}
