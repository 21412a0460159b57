/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files at start: which of them are segments of the log, and what is left over from a stop in the
 * middle of something.
 */
#include "recover.h"
#include "footer.h"
#include "spare.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* Names found in a folder. */
struct listing {
	uint64_t *ids; // own
	size_t count;
	size_t room;
	char **others; // own; to be removed
	size_t other_count;
	size_t other_room;
};

static bool
parse_segment_name(const char *name, uint64_t *id)
{
	char path[PATH_MAX_SIZE];
	char *end;

	*id = strtoull(name, &end, 10);
	if (*id == 0)
		return false;
	segment_path(path, *id);
	return strcmp(path + strlen(LOG_FOLDER) + 1, name) == 0;
}

static bool
ends_with(const char *name, const char *end)
{
	size_t n = strlen(name);
	size_t m = strlen(end);

	return n >= m && strcmp(name + n - m, end) == 0;
}

static void
note_other(struct listing *l, const char *name)
{
	if (l->other_count == l->other_room) {
		l->other_room = l->other_room == 0 ? 8 : 2 * l->other_room;
		l->others = xrealloc(l->others, l->other_room * sizeof(char *));
	}
	l->others[l->other_count++] = xstrdup(name);
}

static void
note_segment(void *context, const char *name)
{
	struct listing *l = context;
	uint64_t id;

	if (!parse_segment_name(name, &id))
		return;
	if (l->count == l->room) {
		l->room = l->room == 0 ? 16 : 2 * l->room;
		l->ids = xrealloc(l->ids, l->room * sizeof(uint64_t));
	}
	l->ids[l->count++] = id;
}

static void
note_temporary(void *context, const char *name)
{
	if (ends_with(name, ".tmp"))
		note_other(context, name);
}

static void
note_spare(void *context, const char *name)
{
	if (ends_with(name, SPARE_SUFFIX))
		note_other(context, name);
}

static void
note_any(void *context, const char *name)
{
	note_other(context, name);
}

static void
listing_fini(struct listing *l)
{
	for (size_t i = 0; i < l->other_count; i++)
		xfree(l->others[i]);
	xfree(l->others);
	xfree(l->ids);
}

static int
remove_others(struct store *store, const char *folder, const struct listing *l)
{
	char path[PATH_MAX_SIZE + 256];

	for (size_t i = 0; i < l->other_count; i++) {
		int error;

		if (spares_adopt(store->spares, l->others[i], spare_least(store)))
			continue;
		(void)snprintf(path, sizeof(path), "%s/%s", folder, l->others[i]);
		error = disk_unlink(store->disk, path);
		if (error < 0)
			return error;
	}
	return 0;
}

/* Removes what a stop left unfinished in a folder, but for spare files. */
static int
clean_folder(struct recovery *r, const char *folder, void (*note)(void *context, const char *name))
{
	struct listing l = {.ids = NULL};
	int error = disk_list(r->store->disk, folder, note, &l);

	if (error == 0)
		error = remove_others(r->store, folder, &l);
	if (error != 0)
		buf_addf(r->error, "store: cannot clean %s/: %s", folder, strerror(-error));
	listing_fini(&l);
	return error;
}

/* The header of a file. 0; -EBADMSG when there is none in it; else an error of the disk. */
static int
read_header(struct scan *scan, struct segment_header *header)
{
	uint8_t octets[SEGMENT_HEADER_SIZE];
	int64_t n = disk_read(scan->file, octets, sizeof(octets), 0);

	if (n < 0)
		return (int)n;
	return n < SEGMENT_HEADER_SIZE ? -EBADMSG : segment_header_decode(header, octets);
}

void
recovery_leftover(struct recovery *r, uint64_t id, bool headless)
{
	if (r->leftover_count == r->leftover_room) {
		r->leftover_room = r->leftover_room == 0 ? 4 : 2 * r->leftover_room;
		r->leftovers = xrealloc(r->leftovers, r->leftover_room * sizeof(*r->leftovers));
	}
	r->leftovers[r->leftover_count++] = (struct leftover){id, headless};
}

/* Where the records of a merged segment end, its footer alone can say. */
static int
read_merged_end(struct recovery *r, struct scan *scan, struct segment *segment)
{
	struct footer footer;
	int error = footer_open(&footer, scan->file);

	if (error == -ENOENT || (error == 0 && footer.last_lsn != segment->last_lsn))
		return recovery_damage(r, segment->id, scan->size, "its index is not valid");
	if (error != 0)
		return recovery_disk_error(r, "read", segment->id, error);
	segment->end = footer.end;
	return 0;
}

/* Looks at one file; *segment stays NULL when it is not in use. */
static int
read_segment(struct recovery *r, uint64_t id, struct segment **segment)
{
	struct segment_header header;
	struct scan scan;
	int error = scan_open(&scan, r->store->disk, id);

	if (error != 0)
		return recovery_disk_error(r, "open", id, error);
	error = read_header(&scan, &header);
	if (error == 0 && (header.id != id ||
			   memcmp(header.uuid, r->store->superblock.uuid, STORE_UUID_SIZE) != 0)) {
		buf_addf(r->error, "store: log/%010llu.seg belongs to another store",
			 (unsigned long long)id);
		error = -EBADMSG;
	} else if (error == 0 && header.first_lsn != 0) {
		*segment = xcalloc(1, sizeof(**segment));
		**segment = (struct segment){
			.id = id,
			.generation = header.generation,
			.salt = header.salt,
			.first_lsn = header.first_lsn,
			.last_lsn = header.last_lsn,
			.swallowed = header.swallowed,
			.end = SEGMENT_HEADER_SIZE,
			.capacity = scan.size,
		};
		if (header.generation > 0)
			error = read_merged_end(r, &scan, *segment);
	} else if (error == 0 || error == -EBADMSG) {
		recovery_leftover(r, id, error != 0);
		error = 0;
	} else if (error == -ENOTSUP) {
		buf_addf(r->error,
			 "store: log/%010llu.seg was written by a newer version of pannierd",
			 (unsigned long long)id);
	} else if (error != 0) {
		recovery_disk_error(r, "read", id, error);
	}
	scan_close(&scan);
	return error;
}

static int
remove_file(struct recovery *r, uint64_t id)
{
	char path[PATH_MAX_SIZE];
	int error;

	segment_path(path, id);
	error = disk_unlink(r->store->disk, path);
	return error == 0 ? 0 : recovery_disk_error(r, "remove", id, error);
}

/* A file may have lost its header while it was written with the first batch behind it: nothing of that
 * was confirmed, unless a later group stands there too. */
static int
check_headless(struct recovery *r, uint64_t id)
{
	struct scan scan;
	bool damaged;
	int error = scan_open(&scan, r->store->disk, id);

	if (error != 0)
		return recovery_disk_error(r, "open", id, error);
	scan.salt = segment_salt(r->store->superblock.uuid, id, 0);
	damaged = scan_finds_group(&scan, SEGMENT_HEADER_SIZE, r->writer.group + 2);
	error = scan.error;
	scan_close(&scan);
	if (error != 0)
		return recovery_disk_error(r, "read", id, error);
	return damaged ? recovery_damage(r, id, 0, "its header is not valid") : 0;
}

static int
check_leftovers(struct recovery *r)
{
	int error = 0;

	for (size_t i = 0; i < r->leftover_count && error == 0; i++)
		if (r->leftovers[i].headless)
			error = check_headless(r, r->leftovers[i].id);
	return error;
}

static int
remove_leftovers(struct recovery *r)
{
	int error = 0;

	for (size_t i = 0; i < r->leftover_count && error == 0; i++)
		error = remove_file(r, r->leftovers[i].id);
	return error;
}

int
recover_discard(struct recovery *r)
{
	struct store *store = r->store;
	struct segment *last =
		store->segment_count == 0 ? NULL : store->segments[store->segment_count - 1];
	int error = check_leftovers(r);

	if (error == 0)
		error = clean_folder(r, CHECKPOINT_FOLDER, note_temporary);
	if (error == 0)
		error = clean_folder(r, PAGE_FOLDER, note_any);
	if (error == 0)
		error = clean_folder(r, LOG_FOLDER, note_temporary);
	if (error == 0)
		error = clean_folder(r, LOG_FOLDER, note_spare);
	if (error == 0)
		error = remove_leftovers(r);
	/* a segment whose first batch was torn */
	if (error == 0 && last != NULL && last->end == SEGMENT_HEADER_SIZE) {
		error = remove_file(r, last->id);
		segment_remove(store, last);
	}
	if (error != 0)
		return error;
	/* gone for certain before the next one is made */
	error = disk_sync_dir(store->disk, LOG_FOLDER);
	if (error != 0)
		buf_addf(r->error, "store: cannot sync log/: %s", strerror(-error));
	return error;
}

/* Puts a segment that is in use behind the others. */
static int
take_segment(struct recovery *r, struct segment *segment)
{
	struct store *store = r->store;
	struct segment *last =
		store->segment_count == 0 ? NULL : store->segments[store->segment_count - 1];

	for (size_t i = 0; i < r->leftover_count; i++)
		if (r->leftovers[i].headless)
			return recovery_damage(r, r->leftovers[i].id, 0, "its header is not valid");
	if (last != NULL && last->first_lsn > segment->first_lsn)
		return recovery_damage(r, segment->id, 0,
				       "its LSNs are not behind those of the one before");
	if (last != NULL && last->first_lsn == segment->first_lsn) {
		/* all of it was copied here by a start that then ended (recover_tail.c) */
		recovery_leftover(r, last->id, false);
		segment_remove(store, last);
	}
	segment_add(store, segment);
	return 0;
}

static int
take_segments(struct recovery *r, const struct listing *l)
{
	for (size_t i = 0; i < l->count; i++) {
		struct segment *segment = NULL;
		int error = read_segment(r, l->ids[i], &segment);

		r->store->next_segment_id = l->ids[i] + 1;
		if (error == 0 && segment != NULL)
			error = take_segment(r, segment);
		if (error != 0) {
			xfree(segment);
			return error;
		}
	}
	return 0;
}

/* A merge that was cut short behind its renaming left the right source, all of which the left one has. */
static void
drop_swallowed(struct recovery *r)
{
	struct store *store = r->store;

	for (size_t i = 0; i < store->segment_count; i++) {
		struct segment *swallowed = segment_by_id(store, store->segments[i]->swallowed);

		if (swallowed == NULL)
			continue;
		recovery_leftover(r, swallowed->id, false);
		segment_remove(store, swallowed);
	}
}

int
recover_segments(struct recovery *r)
{
	struct listing l = {.ids = NULL};
	int error = disk_list(r->store->disk, LOG_FOLDER, note_segment, &l);

	if (error != 0) {
		buf_addf(r->error, "store: cannot list log/: %s", strerror(-error));
	} else {
		if (l.count > 0)
			qsort(l.ids, l.count, sizeof(uint64_t), compare_u64);
		error = take_segments(r, &l);
		if (error == 0)
			drop_swallowed(r);
	}
	listing_fini(&l);
	return error;
}
