/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading a checkpoint back. A file counts when its header and all its sections hold; the newest one that
 * does is taken in, and what cannot be read is removed once recovery has ended well without it.
 */
#include "checkpoint.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "util/crc32c.h"

static int
read_file(struct disk *disk, uint64_t lsn, struct checkpoint_image *image)
{
	char path[PATH_MAX_SIZE];
	struct disk_file *file;
	int64_t size;
	int error;

	checkpoint_path(path, lsn, "");
	error = disk_open(disk, path, DISK_READ, &file);
	if (error != 0)
		return error;
	size = disk_size(file);
	if (size >= 0) {
		image->n = (size_t)size;
		image->p = xmalloc(image->n + 1);
		size = disk_read(file, image->p, image->n, 0);
	}
	disk_close(&file);
	if (size < 0)
		return (int)size;
	return (size_t)size == image->n ? 0 : -EBADMSG;
}

static int
check_header(const struct checkpoint_image *image, const uint8_t uuid[STORE_UUID_SIZE])
{
	const uint8_t *p = image->p;

	if (image->n < CHECKPOINT_HEADER_SIZE || memcmp(p, CHECKPOINT_MAGIC, 8) != 0 ||
	    le32_load(p + CHECKPOINT_AT_CRC) != crc32c(0, p, CHECKPOINT_AT_CRC))
		return -EBADMSG;
	if (le16_load(p + CHECKPOINT_AT_MAJOR) > STORE_FORMAT_MAJOR)
		return -ENOTSUP;
	if (le32_load(p + CHECKPOINT_AT_LENGTH) != CHECKPOINT_HEADER_SIZE ||
	    le64_load(p + CHECKPOINT_AT_LSN) != image->lsn ||
	    memcmp(p + CHECKPOINT_AT_UUID, uuid, STORE_UUID_SIZE) != 0)
		return -EBADMSG;
	return 0;
}

/* The check of a section does not cover its tag: a garbled one shows as another that is missing. */
static int
all_sections(const struct checkpoint_image *image, bool others)
{
	for (uint32_t tag = SECTION_END + 1; tag < countof(image->sections); tag++)
		if (image->sections[tag].p == NULL)
			return -EBADMSG;
	return others ? -ENOTSUP : 0;
}

static int
cut_sections(struct checkpoint_image *image)
{
	size_t at = CHECKPOINT_HEADER_SIZE;
	bool others = false;

	while (image->n - at >= SECTION_HEADER_SIZE) {
		const uint8_t *p = image->p + at;
		uint32_t tag = le32_load(p);
		uint64_t n = le64_load(p + 8);

		at += SECTION_HEADER_SIZE;
		if (n > image->n - at || record_align(n) > image->n - at ||
		    le32_load(p + 4) != crc32c(0, p + SECTION_HEADER_SIZE, n))
			return -EBADMSG;
		if (tag == SECTION_END)
			return all_sections(image, others);
		if (tag < countof(image->sections) && image->sections[tag].p != NULL)
			return -EBADMSG;
		if (tag < countof(image->sections))
			image->sections[tag] = bytes_of(p + SECTION_HEADER_SIZE, n);
		else if (!(tag & SECTION_SKIPPABLE))
			others = true;
		at += record_align(n);
	}
	return -EBADMSG;
}

int
checkpoint_read(struct disk *disk, const uint8_t uuid[STORE_UUID_SIZE], uint64_t lsn,
		struct checkpoint_image *image)
{
	int error;

	*image = (struct checkpoint_image){.lsn = lsn};
	error = read_file(disk, lsn, image);
	if (error == 0)
		error = check_header(image, uuid);
	return error == 0 ? cut_sections(image) : error;
}

/* ---- taking it in ---- */

static int
load_definitions(struct store *store, struct bytes in)
{
	uint64_t size;

	while (in.n != 0) {
		struct definition definition;
		int error;

		if (!le64_take(&in, &size) || size > in.n)
			return -EBADMSG;
		error = definition_decode(&definition, bytes_of(in.p, size));
		if (error != 0)
			return error;
		recovery_define(store, &definition);
		in = bytes_of(in.p + size, in.n - size);
	}
	return 0;
}

static int
load_queues(struct store *store, struct bytes in)
{
	while (in.n != 0) {
		struct qseq_set settled;
		uint64_t id;
		uint64_t next_qseq;
		uint64_t flags;
		uint64_t count;
		uint64_t octets;
		uint64_t redelivered;
		struct queue_log *log;
		int error;

		if (!le64_take(&in, &id) || !le64_take(&in, &next_qseq) ||
		    !le64_take(&in, &flags) || !le64_take(&in, &count) ||
		    !le64_take(&in, &octets) || !le64_take(&in, &redelivered))
			return -EBADMSG;
		error = qseq_set_decode(&settled, &in);
		if (error != 0)
			return error;
		log = queue_log_find(store, id);
		if (log == NULL) {
			qseq_set_fini(&settled);
			continue;
		}
		qseq_set_fini(&log->settled);
		log->settled = settled;
		log->next_qseq = next_qseq;
		log->delivered = (flags & QUEUE_STATE_DELIVERED) != 0;
		log->count = count;
		log->octets = octets;
		log->redelivered_below = redelivered;
	}
	return 0;
}

/* The merged segment that has the messages up to this LSN; NULL: none. */
static struct segment *
merged_with(struct store *store, uint64_t last_lsn)
{
	for (size_t i = 0; i < store->segment_count; i++) {
		struct segment *segment = store->segments[i];

		if (segment->generation > 0 && segment->first_lsn <= last_lsn &&
		    last_lsn <= segment->last_lsn)
			return segment;
	}
	return NULL;
}

static int
load_segments(struct recovery *r, struct bytes in, uint64_t lsn)
{
	uint64_t id;
	uint64_t end;
	uint64_t last_lsn;
	uint64_t live;
	uint64_t live_refs;
	struct segment *segment;

	while (in.n != 0) {
		if (!le64_take(&in, &id) || !le64_take(&in, &end) || !le64_take(&in, &last_lsn) ||
		    !le64_take(&in, &live) || !le64_take(&in, &live_refs))
			return -EBADMSG;
		segment = segment_by_id(r->store, id);
		if (segment == NULL || segment->generation > 0) {
			/* a merge since may have put it into its neighbour */
			segment = merged_with(r->store, last_lsn);
			if (segment != NULL) {
				segment->listed = true;
				segment->live += live;
				segment->live_refs += live_refs;
				continue;
			}
		}
		/* a file goes only when two checkpoints found it empty (reclaim.c) */
		if (segment == NULL && live_refs != 0)
			return recovery_damage(r, id, 0, "it is missing");
		if (segment == NULL)
			continue;
		segment->listed = true;
		if (end != 0) {
			segment->end = end;
			segment->last_lsn = last_lsn;
		}
		segment->live = live;
		segment->live_refs = live_refs;
		/* one that was written to may have got messages since */
		segment->empty_lsn = live_refs == 0 && end != 0 ? lsn : 0;
	}
	return 0;
}

/* A file that was removed and is back after a crash, as removals are not synced: it had no message then, and
 * those next to it may be gone, so that it cannot be read as a part of the log. */
static void
drop_ghosts(struct recovery *r, uint64_t lsn)
{
	struct store *store = r->store;

	for (size_t i = 0; i < store->segment_count;) {
		struct segment *segment = store->segments[i];

		if (segment->listed || segment->first_lsn > lsn) {
			i++;
			continue;
		}
		recovery_leftover(r, segment->id, false);
		segment_remove(store, segment);
	}
}

/* The chain goes on from what the checkpoint says; after a clean stop there is nothing behind it. */
static int
load_chain(struct recovery *r, struct bytes in)
{
	const struct superblock *superblock = &r->store->superblock;

	if (in.n < 16)
		return -EBADMSG;
	r->writer = (struct writer){
		.number = le64_load(in.p),
		.digest = le32_load(in.p + 8),
		.group = le32_load(in.p + 12),
	};
	r->next_lsn = r->checkpoint_lsn + 1;
	r->ends_here = superblock->clean && superblock->checkpoint == r->checkpoint_lsn;
	return 0;
}

static int
take_in(struct recovery *r, const struct checkpoint_image *image)
{
	struct store *store = r->store;
	struct bytes counters = image->sections[SECTION_COUNTERS];
	uint64_t queue_id;
	uint64_t segment_id;
	int error;

	if (!le64_take(&counters, &queue_id) || !le64_take(&counters, &segment_id))
		return -EBADMSG;
	error = load_definitions(store, image->sections[SECTION_DEFINITIONS]);
	if (error == 0)
		error = load_queues(store, image->sections[SECTION_QUEUES]);
	if (error == 0)
		error = load_segments(r, image->sections[SECTION_SEGMENTS], image->lsn);
	if (error == 0)
		drop_ghosts(r, image->lsn);
	store->next_queue_id = max_u64(store->next_queue_id, queue_id);
	store->next_segment_id = max_u64(store->next_segment_id, segment_id);
	r->checkpoint_lsn = image->lsn;
	return error == 0 ? load_chain(r, image->sections[SECTION_CHAIN]) : error;
}

/* ---- finding it ---- */

struct found {
	uint64_t *lsns; // owns
	size_t count;
	size_t room;
};

static void
note_checkpoint(void *context, const char *name)
{
	struct found *found = context;
	uint64_t lsn = strtoull(name, NULL, 10);
	char path[PATH_MAX_SIZE];

	checkpoint_path(path, lsn, "");
	if (lsn == 0 || strcmp(path + strlen(CHECKPOINT_FOLDER) + 1, name) != 0)
		return;
	if (found->count == found->room) {
		found->room = found->room == 0 ? 8 : 2 * found->room;
		found->lsns = xrealloc(found->lsns, found->room * sizeof(uint64_t));
	}
	found->lsns[found->count++] = lsn;
}

static int
newest_first(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a;
	uint64_t y = *(const uint64_t *)b;

	return x < y ? 1 : x > y ? -1 : 0;
}

/* Says why a checkpoint cannot be used; negative when nothing else can be either. */
static int
judge(struct recovery *r, uint64_t lsn, int error)
{
	if (error == -EBADMSG) {
		log_warn("store: checkpoint %llu is damaged: the one before it is used",
			 (unsigned long long)lsn);
		return 0;
	}
	if (error == -ENOTSUP)
		buf_addf(r->error,
			 "store: checkpoint %llu was written by a newer version of pannierd",
			 (unsigned long long)lsn);
	else
		buf_addf(r->error, "store: cannot read checkpoint %llu: %s",
			 (unsigned long long)lsn, strerror(-error));
	return error;
}

/* Notes which checkpoints there are; those kept, ascending, and those that cannot be read. */
static void
note_kept(struct recovery *r, const struct found *found, size_t used)
{
	struct checkpoints *c = &r->store->checkpoints;

	for (size_t i = min_u64(found->count, used + CHECKPOINTS_KEPT); i > used; i--)
		c->lsns[c->count++] = found->lsns[i - 1];
	r->bad_checkpoints = xmemdup(found->lsns, used * sizeof(uint64_t));
	r->bad_checkpoint_count = used;
}

int
checkpoint_load(struct recovery *r)
{
	struct found found = {.lsns = NULL};
	int error = disk_list(r->store->disk, CHECKPOINT_FOLDER, note_checkpoint, &found);
	size_t i = 0;

	if (error != 0)
		buf_addf(r->error, "store: cannot list " CHECKPOINT_FOLDER "/: %s",
			 strerror(-error));
	if (found.count > 0)
		qsort(found.lsns, found.count, sizeof(uint64_t), newest_first);
	for (; i < found.count && error == 0; i++) {
		struct checkpoint_image image;
		bool usable;

		error = checkpoint_read(r->store->disk, r->store->superblock.uuid, found.lsns[i],
					&image);
		usable = error == 0;
		if (usable) {
			error = take_in(r, &image);
			if (error != 0 && r->error->n == 0)
				buf_addf(r->error, "store: checkpoint %llu makes no sense",
					 (unsigned long long)found.lsns[i]);
		} else {
			error = judge(r, found.lsns[i], error);
		}
		xfree(image.p);
		if (usable)
			break;
	}
	if (error == 0)
		note_kept(r, &found, i);
	xfree(found.lsns);
	return error;
}
