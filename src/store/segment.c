/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of the log, in order of their LSNs. The last one is written to; the next one is prepared while
 * it fills: made at its full size and synced with its name, so that writing to it neither meets a full
 * disk nor waits for a folder.
 */
#include "spare.h"

#include <errno.h>
#include <stdio.h>

void
segment_path(char path[PATH_MAX_SIZE], uint64_t id)
{
	(void)snprintf(path, PATH_MAX_SIZE, LOG_FOLDER "/%010llu.seg", (unsigned long long)id);
}

struct segment *
segment_of(const struct store *store, uint64_t lsn)
{
	size_t low = 0;
	size_t high = store->segment_count;

	if (high > 0 && store->segments[high - 1]->first_lsn <= lsn)
		return store->segments[high - 1];
	while (low < high) {
		size_t middle = (low + high) / 2;

		if (store->segments[middle]->first_lsn <= lsn)
			low = middle + 1;
		else
			high = middle;
	}
	return low == 0 ? NULL : store->segments[low - 1];
}

struct segment *
segment_by_id(const struct store *store, uint64_t id)
{
	for (size_t i = 0; i < store->segment_count; i++)
		if (store->segments[i]->id == id)
			return store->segments[i];
	return NULL;
}

void
segment_release(struct segment *segment, uint64_t refs, uint64_t octets)
{
	if (segment == NULL)
		return;
	assert(segment->live_refs >= refs);
	segment->live_refs -= refs;
	segment->live =
		segment->live_refs == 0 ? 0 : segment->live - min_u64(segment->live, octets);
}

struct segment_place
segment_place_of(const struct segment *segment)
{
	return (struct segment_place){segment->id, segment->end, segment->last_lsn,
				      segment->generation};
}

void
segment_add(struct store *store, struct segment *segment)
{
	assert(segment->first_lsn != 0);
	if (store->segment_count > 0)
		assert(store->segments[store->segment_count - 1]->first_lsn < segment->first_lsn);
	if (store->segment_count == store->segment_room) {
		store->segment_room = store->segment_room == 0 ? 8 : 2 * store->segment_room;
		store->segments =
			xrealloc(store->segments, store->segment_room * sizeof(struct segment *));
	}
	store->segments[store->segment_count++] = segment;
}

void
segment_remove(struct store *store, struct segment *segment)
{
	size_t at = 0;

	while (store->segments[at] != segment)
		assert(++at < store->segment_count);
	store->segment_count--;
	memmove(store->segments + at, store->segments + at + 1,
		(store->segment_count - at) * sizeof(struct segment *));
	assert(segment->file == NULL);
	timed_forget(store, segment);
	xfree(segment);
}

/* A spare file, or a new one, and its name. */
static int
open_prepared(struct spares *spares, struct segment *segment, char path[PATH_MAX_SIZE])
{
	int error = spares_take(spares, &segment->file, path);

	if (error != -ENOENT)
		return error;
	(void)snprintf(path, PATH_MAX_SIZE, LOG_FOLDER "/%010llu.tmp",
		       (unsigned long long)segment->id);
	return disk_open(spares->disk, path, DISK_CREATE, &segment->file);
}

/* Makes the file under a name that does not count, so that a file of the log has a header for certain. */
static int
fill_prepared(struct spares *spares, struct segment *segment, const uint8_t uuid[STORE_UUID_SIZE],
	      char path[PATH_MAX_SIZE])
{
	uint8_t octets[SEGMENT_HEADER_SIZE];
	struct segment_header header = {.id = segment->id};
	int error;

	memcpy(header.uuid, uuid, STORE_UUID_SIZE);
	segment_header_encode(octets, &header);
	error = open_prepared(spares, segment, path);
	if (error == 0)
		error = disk_allocate(segment->file, segment->capacity);
	if (error == 0)
		error = disk_write(segment->file, octets, sizeof(octets), 0);
	return error == 0 ? disk_sync(segment->file) : error;
}

/* Best effort: what is left is not in use and removed at the next start. */
static void
remove_prepared(struct disk *disk, struct segment *segment, const char *path)
{
	if (segment->file == NULL)
		return;
	disk_close(&segment->file);
	if (disk_unlink(disk, path) < 0)
		log_warn("store: cannot remove %s after a failed preparation", path);
}

int
segment_prepare(struct segment **prepared, struct spares *spares, uint64_t id,
		const uint8_t uuid[STORE_UUID_SIZE], uint64_t capacity)
{
	struct disk *disk = spares->disk;
	struct segment *segment = xcalloc(1, sizeof(*segment));
	char temporary[PATH_MAX_SIZE];
	char path[PATH_MAX_SIZE];
	const char *name = temporary;
	int error;

	*segment = (struct segment){
		.id = id,
		.salt = segment_salt(uuid, id, 0),
		.end = SEGMENT_HEADER_SIZE,
		.capacity = capacity,
	};
	segment_path(path, id);
	error = fill_prepared(spares, segment, uuid, temporary);
	if (error == 0)
		error = disk_rename(disk, temporary, path);
	if (error == 0) {
		name = path;
		error = disk_sync_dir(disk, LOG_FOLDER);
	}
	if (error == 0) {
		*prepared = segment;
		return 0;
	}
	remove_prepared(disk, segment, name);
	xfree(segment);
	return error;
}
