/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which files there are. Superblock and headers are judged as recovery does it (recover_files.c), but what
 * recovery refuses is reported here and got round: the uuid, which all salts need, is taken from the headers when
 * no superblock is valid, and a segment without a header is known by its first valid batch.
 */
#include "inspecting.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define SUPERBLOCK_FILE "STORE"
/* Of a segment without a header: merged more often than this it is not found. */
#define GENERATIONS_TRIED 256

void
inspect_report(struct inspect *inspect, const struct inspect_fault *fault)
{
	if (inspect->ops->fault != NULL)
		inspect->ops->fault(inspect->context, fault);
}

struct known_segment *
inspect_known(struct inspect *inspect, uint64_t id)
{
	for (size_t i = 0; i < inspect->known_count; i++)
		if (inspect->known[i].state.id == id)
			return &inspect->known[i];
	return NULL;
}

/* ---- superblock ---- */

static int
read_copies(struct disk *disk, struct superblock copies[2], int errors[2])
{
	uint8_t octets[SUPERBLOCK_SIZE];
	struct disk_file *file;
	int error = disk_open(disk, SUPERBLOCK_FILE, DISK_READ, &file);

	if (error != 0)
		return error;
	for (unsigned i = 0; i < 2 && error == 0; i++) {
		int64_t n = disk_read(file, octets, sizeof(octets), (uint64_t)i * SUPERBLOCK_SIZE);

		if (n < 0)
			error = (int)n;
		errors[i] = n == SUPERBLOCK_SIZE ? superblock_decode(&copies[i], octets) : -EBADMSG;
	}
	disk_close(&file);
	return error;
}

static void
report_superblock(struct inspect *inspect, enum inspect_severity severity, uint64_t offset,
		  const char *meaning, const char *advice)
{
	inspect_report(inspect, &(struct inspect_fault){
					.severity = severity,
					.path = SUPERBLOCK_FILE,
					.offset = offset,
					.size = severity == INSPECT_DAMAGE ? 0 : SUPERBLOCK_SIZE,
					.meaning = meaning,
					.advice = advice,
				});
}

static int
open_superblock(struct inspect *inspect, struct buf *error)
{
	struct superblock copies[2];
	int errors[2] = {-EBADMSG, -EBADMSG};
	int code = read_copies(inspect->disk, copies, errors);

	if (code != 0 && code != -ENOENT) {
		buf_addf(error, "cannot read " SUPERBLOCK_FILE ": %s", strerror(-code));
		return code;
	}
	if (errors[0] == -ENOTSUP || errors[1] == -ENOTSUP) {
		buf_addf(error,
			 SUPERBLOCK_FILE " was written by a newer version: use its pannierctl");
		return -ENOTSUP;
	}
	if (code == -ENOENT && inspect->segment_count == 0) {
		buf_addf(error, "there is no store");
		return -ENOENT;
	}
	if (errors[0] != 0 && errors[1] != 0) {
		report_superblock(inspect, INSPECT_DAMAGE, 0,
				  code == -ENOENT ? "the superblock is missing"
						  : "both copies of the superblock are damaged",
				  "the log can still be read: `repair' makes a new store of it");
		return 0;
	}
	if (errors[0] != 0 || errors[1] != 0)
		report_superblock(inspect, INSPECT_INDEX, errors[0] != 0 ? 0 : SUPERBLOCK_SIZE,
				  "one copy of the superblock is not valid; the other one is used",
				  "nothing: the broker writes it again");
	inspect->superblock =
		errors[1] != 0 || (errors[0] == 0 && copies[0].sequence > copies[1].sequence)
			? copies[0]
			: copies[1];
	if (errors[0] != 0 || errors[1] != 0)
		inspect->superblock.clean = false;
	inspect->has_superblock = true;
	return 0;
}

/* ---- segments ---- */

static void
note_segment(void *context, const char *name)
{
	struct inspect *inspect = context;
	struct inspect_segment *segment;
	uint64_t id = strtoull(name, NULL, 10);
	char path[PATH_MAX_SIZE];

	segment_path(path, id);
	if (id == 0 || strcmp(path + strlen(LOG_FOLDER) + 1, name) != 0)
		return;
	if (inspect->segment_count == inspect->segment_room) {
		inspect->segment_room = inspect->segment_room == 0 ? 16 : 2 * inspect->segment_room;
		inspect->segments = xrealloc(inspect->segments,
					     inspect->segment_room * sizeof(*inspect->segments));
	}
	segment = &inspect->segments[inspect->segment_count++];
	*segment = (struct inspect_segment){.id = id, .use = INSPECT_FOREIGN};
	(void)snprintf(segment->path, sizeof(segment->path), "%s", path);
}

static int
by_id(const void *a, const void *b)
{
	const struct inspect_segment *x = a;
	const struct inspect_segment *y = b;

	return x->id < y->id ? -1 : x->id > y->id;
}

/* In use first, by LSN; then by id. */
static int
by_lsn(const void *a, const void *b)
{
	const struct inspect_segment *x = a;
	const struct inspect_segment *y = b;
	bool x_used = x->use == INSPECT_IN_USE;
	bool y_used = y->use == INSPECT_IN_USE;

	if (x_used != y_used)
		return x_used ? -1 : 1;
	if (x_used && x->first_lsn != y->first_lsn)
		return x->first_lsn < y->first_lsn ? -1 : 1;
	return by_id(a, b);
}

static void
report_segment(struct inspect *inspect, const struct inspect_segment *segment,
	       enum inspect_severity severity, const char *meaning, const char *advice)
{
	inspect_report(inspect, &(struct inspect_fault){
					.severity = severity,
					.path = segment->path,
					.meaning = meaning,
					.advice = advice,
				});
}

/* A merged segment has a record where others have a batch: its check and its crc give the salt. */
static bool
find_merged(struct inspect *inspect, struct inspect_segment *segment, struct scan *scan)
{
	struct bytes octets = scan_view(scan, SEGMENT_HEADER_SIZE, RECORD_HEADER_SIZE);
	struct record record;
	uint32_t size = octets.n < RECORD_HEADER_SIZE ? 0 : le32_load(octets.p + RECORD_AT_SIZE);

	octets = scan_view(scan, SEGMENT_HEADER_SIZE, size);
	for (uint32_t generation = 1; generation <= GENERATIONS_TRIED; generation++) {
		uint32_t salt = segment_salt(inspect->superblock.uuid, segment->id, generation);

		if (record_decode(&record, octets, salt) != 0)
			continue;
		segment->use = INSPECT_IN_USE;
		segment->generation = generation;
		segment->salt = salt;
		segment->first_lsn = record.lsn;
		return true;
	}
	return false;
}

/* The first valid batch of a file without a header tells where it belongs. */
static void
find_first_batch(struct inspect *inspect, struct inspect_segment *segment, struct scan *scan)
{
	struct batch_record batch;
	uint64_t padded;

	segment->headless = true;
	segment->salt = segment_salt(inspect->superblock.uuid, segment->id, 0);
	segment->use = INSPECT_LEFTOVER;
	scan->salt = segment->salt;
	if (find_merged(inspect, segment, scan))
		return;
	for (uint64_t at = SEGMENT_HEADER_SIZE; at < scan->size; at += BATCH_ALIGNMENT) {
		if (scan_batch(scan, at, &batch, &padded, NULL, NULL) != 0)
			continue;
		segment->use = INSPECT_IN_USE;
		segment->first_lsn = batch.first_lsn;
		return;
	}
}

static void
take_header(struct inspect *inspect, struct inspect_segment *segment, struct scan *scan)
{
	struct segment_header header;
	struct bytes octets = scan_view(scan, 0, SEGMENT_HEADER_SIZE);
	int error = octets.n < SEGMENT_HEADER_SIZE ? -EBADMSG
						   : segment_header_decode(&header, octets.p);

	if (error == -ENOTSUP) {
		report_segment(inspect, segment, INSPECT_NEWER, "it was written by a newer version",
			       "use the newer pannierctl and pannierd");
		return;
	}
	if (error != 0) {
		find_first_batch(inspect, segment, scan);
		return;
	}
	if (header.id != segment->id ||
	    memcmp(header.uuid, inspect->superblock.uuid, STORE_UUID_SIZE) != 0) {
		report_segment(inspect, segment, INSPECT_DAMAGE,
			       header.id != segment->id ? "it is another segment, renamed"
							: "it belongs to another store",
			       "put it back where it came from; `repair' leaves it out");
		return;
	}
	segment->generation = header.generation;
	segment->salt = header.salt;
	segment->first_lsn = header.first_lsn;
	segment->sealed_lsn = header.last_lsn;
	segment->swallowed = header.swallowed;
	segment->use = header.first_lsn != 0 ? INSPECT_IN_USE : INSPECT_PREPARED;
}

/* Opens the file; reports when that cannot be done. */
static bool
open_file(struct inspect *inspect, struct inspect_segment *segment, struct scan *scan)
{
	int error = scan_open(scan, inspect->disk, segment->id);

	if (error != 0) {
		report_segment(inspect, segment, INSPECT_DAMAGE, strerror(-error),
			       "make the file readable and try again");
		return false;
	}
	segment->size = scan->size;
	return true;
}

/* Without a superblock: the uuid that the headers give. */
static void
guess_uuid(struct inspect *inspect)
{
	for (size_t i = 0; i < inspect->segment_count; i++) {
		struct segment_header header;
		struct scan scan;
		struct bytes octets;

		if (scan_open(&scan, inspect->disk, inspect->segments[i].id) != 0)
			continue;
		octets = scan_view(&scan, 0, SEGMENT_HEADER_SIZE);
		if (octets.n == SEGMENT_HEADER_SIZE &&
		    segment_header_decode(&header, octets.p) == 0) {
			memcpy(inspect->superblock.uuid, header.uuid, STORE_UUID_SIZE);
			inspect->superblock.term = header.term;
			scan_close(&scan);
			return;
		}
		scan_close(&scan);
	}
}

/* A file that the newest checkpoint covers and does not know was removed, and is back after a crash, as removals
 * are not synced. */
static bool
is_ghost(struct inspect *inspect, const struct inspect_segment *segment)
{
	return inspect->newest != 0 && segment->first_lsn <= inspect->newest &&
	       !segment->headless && inspect_known(inspect, segment->id) == NULL;
}

/* Whether a segment has all of the one of this id since a merge. */
static bool
is_swallowed(const struct inspect *inspect, uint64_t id)
{
	for (size_t i = 0; i < inspect->used; i++)
		if (inspect->segments[i].swallowed == id)
			return true;
	return false;
}

static void
drop_leftovers(struct inspect *inspect)
{
	static const char advice[] = "nothing: the next start of the broker removes it";

	for (size_t i = 0; i < inspect->used; i++) {
		struct inspect_segment *segment = &inspect->segments[i];
		const struct inspect_segment *next = i + 1 < inspect->used ? segment + 1 : NULL;

		if (is_swallowed(inspect, segment->id)) {
			segment->use = INSPECT_LEFTOVER;
			report_segment(inspect, segment, INSPECT_NOTE,
				       "all of it was merged into the one before", advice);
		} else if (is_ghost(inspect, segment)) {
			segment->use = INSPECT_LEFTOVER;
			report_segment(inspect, segment, INSPECT_NOTE,
				       "it was removed before a crash and is back", advice);
		} else if (next != NULL && next->first_lsn == segment->first_lsn) {
			segment->use = INSPECT_LEFTOVER;
			report_segment(inspect, segment, INSPECT_NOTE,
				       "all of it was copied to a later segment", advice);
		}
	}
}

static void
sort_segments(struct inspect *inspect)
{
	if (inspect->segment_count > 0)
		qsort(inspect->segments, inspect->segment_count, sizeof(*inspect->segments),
		      by_lsn);
	inspect->used = 0;
	while (inspect->used < inspect->segment_count &&
	       inspect->segments[inspect->used].use == INSPECT_IN_USE)
		inspect->used++;
}

/* Files without a header that are not the last one: those have been synced. */
static void
judge_headless(struct inspect *inspect)
{
	uint64_t last = 0;

	for (size_t i = 0; i < inspect->used; i++)
		if (!inspect->segments[i].headless)
			last = max_u64(last, inspect->segments[i].id);
	for (size_t i = 0; i < inspect->segment_count; i++) {
		const struct inspect_segment *segment = &inspect->segments[i];

		if (segment->headless && segment->use == INSPECT_LEFTOVER)
			report_segment(
				inspect, segment,
				segment->id < last ? INSPECT_DAMAGE : INSPECT_NOTE,
				segment->id < last ? "its header is not valid, and nothing in it is"
						   : "it has no valid header and nothing in it",
				segment->id < last
					? "`repair' leaves it out"
					: "nothing: the next start of the broker removes it");
		else if (segment->headless && segment->use == INSPECT_IN_USE && segment->id < last)
			report_segment(inspect, segment, INSPECT_DAMAGE,
				       "its header is not valid, but batches in it are",
				       "`repair' makes a new store of them");
	}
}

/* Whether what ended with this LSN is in a merged segment now. */
static bool
is_merged(const struct inspect *inspect, uint64_t last_lsn)
{
	for (size_t i = 0; i < inspect->used; i++) {
		const struct inspect_segment *segment = &inspect->segments[i];

		if (segment->generation > 0 && segment->first_lsn <= last_lsn &&
		    last_lsn <= segment->sealed_lsn)
			return true;
	}
	return false;
}

/* A segment that a checkpoint needs and that is not there. */
static void
report_missing(struct inspect *inspect)
{
	for (size_t i = 0; i < inspect->segment_count; i++) {
		struct known_segment *known = inspect_known(inspect, inspect->segments[i].id);

		if (known != NULL)
			known->found = true;
	}
	for (size_t i = 0; i < inspect->known_count; i++) {
		const struct known_segment *known = &inspect->known[i];
		char path[PATH_MAX_SIZE];
		char meaning[128];

		if (known->found || known->state.live_refs == 0 ||
		    is_merged(inspect, known->state.last_lsn))
			continue;
		segment_path(path, known->state.id);
		(void)snprintf(meaning, sizeof(meaning),
			       "it is missing: %llu open messages were in it",
			       (unsigned long long)known->state.live_refs);
		inspect_report(inspect, &(struct inspect_fault){
						.severity = INSPECT_DAMAGE,
						.path = path,
						.meaning = meaning,
						.advice = "put it back, or `repair' without it",
					});
	}
}

static int
find_segments(struct inspect *inspect, struct buf *error)
{
	int code = disk_list(inspect->disk, LOG_FOLDER, note_segment, inspect);

	if (code != 0 && code != -ENOENT) {
		buf_addf(error, "cannot list " LOG_FOLDER "/: %s", strerror(-code));
		return code;
	}
	if (inspect->segment_count > 0)
		qsort(inspect->segments, inspect->segment_count, sizeof(*inspect->segments), by_id);
	return 0;
}

static void
read_headers(struct inspect *inspect)
{
	for (size_t i = 0; i < inspect->segment_count; i++) {
		struct scan scan;

		if (!open_file(inspect, &inspect->segments[i], &scan))
			continue;
		take_header(inspect, &inspect->segments[i], &scan);
		scan_close(&scan);
	}
	sort_segments(inspect);
}

int
inspect_open(struct inspect **opened, struct disk *disk, const struct inspect_ops *ops,
	     void *context, struct buf *error)
{
	struct inspect *inspect = xcalloc(1, sizeof(*inspect));
	int code;

	*inspect = (struct inspect){.disk = disk, .ops = ops, .context = context};
	code = find_segments(inspect, error);
	if (code == 0)
		code = open_superblock(inspect, error);
	if (code == 0 && !inspect->has_superblock)
		guess_uuid(inspect);
	if (code == 0)
		code = inspect_find_checkpoints(inspect, error);
	if (code != 0) {
		inspect_close(&inspect);
		return code;
	}
	read_headers(inspect);
	drop_leftovers(inspect);
	sort_segments(inspect);
	judge_headless(inspect);
	report_missing(inspect);
	*opened = inspect;
	return 0;
}

void
inspect_close(struct inspect **closed)
{
	struct inspect *inspect = *closed;

	if (inspect == NULL)
		return;
	xfree(inspect->segments);
	xfree(inspect->checkpoints);
	xfree(inspect->known);
	xfree(inspect);
	*closed = NULL;
}

const struct superblock *
inspect_superblock(const struct inspect *inspect)
{
	return &inspect->superblock;
}

size_t
inspect_segment_count(const struct inspect *inspect)
{
	return inspect->segment_count;
}

const struct inspect_segment *
inspect_segment_at(const struct inspect *inspect, size_t at)
{
	assert(at < inspect->segment_count);
	return &inspect->segments[at];
}

size_t
inspect_checkpoint_count(const struct inspect *inspect)
{
	return inspect->checkpoint_count;
}

uint64_t
inspect_checkpoint_at(const struct inspect *inspect, size_t at)
{
	assert(at < inspect->checkpoint_count);
	return inspect->checkpoints[at];
}
