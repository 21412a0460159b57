/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checkpoints: taken by the broker thread into memory in one piece, kept back until everything that they
 * say is stable, then written by the helper: under a temporary name, synced, renamed, the folder synced.
 * The newest few are kept, since one that cannot be read sends recovery to the one before.
 *
 * With the second-newest checkpoint, all records up to its LSN but messages are garbage: a segment of
 * which no message is open may go (reclaim.c).
 */
#include "checkpoint.h"
#include "merge.h"
#include "space.h"

#include <errno.h>
#include <stdio.h>

#include "store/qseq_counts.h"
#include "util/crc32c.h"

/* Taking a checkpoint costs the loop its time: at most one part in this many. */
#define CHECKPOINT_TIME_SHARE 20
/* The store reads no clock, so that a run can be repeated: what it took is told by the queues that there are,
 * each a few misses of the cache, and by what it wrote. Measured around checkpoint_begin() with a broker whose
 * queues are durable (AMD EPYC, gcc -O2, the other core at work): 100,000 of them 82 to 123 ms for 13.6 MB, 10,000
 * of them 5 to 9 ms for 1.4 MB, with 9 bindings each 16 to 36 ms for 10 MB, with half of 20,000 numbers settled
 * 21 to 62 ms for 26.6 MB. */
#define CHECKPOINT_US_PER_QUEUE 1
#define CHECKPOINT_OCTETS_PER_US 500

/* The writing of a checkpoint by the helper. */
struct checkpoint_job {
	struct mail mail;
	struct disk *disk;
	struct disk_file *superblock_file; // the helper's while it runs
	struct superblock superblock;	   // to be written when the checkpoint is there
	struct buf content;
	uint64_t lsn;
	uint64_t obsolete; // LSN of the checkpoint that goes; 0: none
	int error;
};

void
checkpoint_path(char path[PATH_MAX_SIZE], uint64_t lsn, const char *suffix)
{
	(void)snprintf(path, PATH_MAX_SIZE, CHECKPOINT_FOLDER "/%016llu%s", (unsigned long long)lsn,
		       suffix);
}

/* ---- taking it ---- */

static void
put64(struct buf *out, uint64_t value)
{
	uint8_t octets[8];

	le64_store(octets, value);
	buf_add(out, octets, sizeof(octets));
}

/* Begins a section; its place goes to section_end(). */
static size_t
section_begin(struct buf *out, uint32_t tag)
{
	uint8_t header[SECTION_HEADER_SIZE] = {0};
	size_t at = out->n;

	le32_store(header, tag);
	buf_add(out, header, sizeof(header));
	return at;
}

static void
section_end(struct buf *out, size_t at)
{
	static const uint8_t zeros[RECORD_ALIGNMENT];
	size_t n = out->n - at - SECTION_HEADER_SIZE;

	le32_store(out->p + at + 4, crc32c(0, out->p + at + SECTION_HEADER_SIZE, n));
	le64_store(out->p + at + 8, n);
	buf_add(out, zeros, record_align(n) - n);
}

void
store_snapshot_add(struct store *store, const struct definition *definition)
{
	size_t size = definition_size(definition);
	uint8_t *p;

	assert(store->snapshot != NULL);
	put64(store->snapshot, size);
	p = buf_reserve(store->snapshot, size);
	definition_encode(p, definition);
	store->snapshot->n += size;
}

void
store_snapshot_keys(struct store *store, const struct key_record *of, uint32_t max,
		    uint32_t (*fill)(void *context, uint8_t *p), void *context)
{
	struct buf *out = store->snapshot;
	size_t head = record_align(KEYS_HEAD_SIZE + of->vhost.n + of->name.n);
	uint8_t *p;
	uint32_t count;

	assert(out != NULL);
	p = buf_reserve(out, head + (size_t)max * KEY_SAVED_SIZE);
	count = fill(context, p + head);
	assert(count <= max);
	if (count == 0)
		return;
	keys_head_encode(p, of, count);
	out->n += head + (size_t)count * KEY_SAVED_SIZE;
}

/* The section is there only when somebody has keys. */
static void
put_keys(struct store *store, struct buf *out)
{
	size_t at = section_begin(out, SECTION_KEYS);

	store->snapshot = out;
	store->ops->snapshot_keys(store->context, store);
	store->snapshot = NULL;
	if (out->n > at + SECTION_HEADER_SIZE)
		section_end(out, at);
	else
		out->n = at;
}

static void
put_header(const struct store *store, struct buf *out, uint64_t lsn)
{
	uint8_t header[CHECKPOINT_HEADER_SIZE] = {0};

	memcpy(header, CHECKPOINT_MAGIC, 8);
	le16_store(header + CHECKPOINT_AT_MAJOR, STORE_FORMAT_MAJOR);
	le16_store(header + CHECKPOINT_AT_MINOR, STORE_FORMAT_MINOR);
	le32_store(header + CHECKPOINT_AT_LENGTH, CHECKPOINT_HEADER_SIZE);
	memcpy(header + CHECKPOINT_AT_UUID, store->superblock.uuid, STORE_UUID_SIZE);
	le64_store(header + CHECKPOINT_AT_LSN, lsn);
	le64_store(header + CHECKPOINT_AT_TERM, store->superblock.term);
	le32_store(header + CHECKPOINT_AT_CRC, crc32c(0, header, CHECKPOINT_AT_CRC));
	buf_add(out, header, sizeof(header));
}

/* returning gets those of which messages came back: not all queues are to be visited again for them. */
static void
put_queues(const struct store *store, struct buf *out, bool clean, struct buf *returning)
{
	const struct queue_log *log;

	map_for_each (&store->queues, log, struct queue_log, by_id) {
		put64(out, log->id);
		put64(out, log->next_qseq);
		put64(out, log->delivered && !clean ? QUEUE_STATE_DELIVERED : 0);
		put64(out, log->count);
		put64(out, log->octets);
		put64(out, log->redelivered_below);
		qseq_set_encode(&log->settled, out);
		if (log->returns != NULL)
			buf_add(returning, &log, sizeof(log));
	}
}

static void
put_returns(struct buf *out, const struct buf *returning)
{
	const struct queue_log *log;

	for (size_t at = 0; at < returning->n; at += sizeof(log)) {
		uint64_t *list;

		memcpy(&log, returning->p + at, sizeof(log));
		list = qseq_counts_list(log->returns);
		put64(out, log->id);
		put64(out, log->returns->used);
		for (uint32_t i = 0; i < log->returns->used; i++)
			put64(out, list[i]);
		xfree(list);
	}
}

static void
put_segments(struct store *store, struct buf *out, uint64_t lsn)
{
	for (size_t i = 0; i < store->segment_count; i++) {
		struct segment *segment = store->segments[i];

		if (segment->file == NULL && segment->live_refs == 0 && segment->empty_lsn == 0)
			segment->empty_lsn = lsn;
		put64(out, segment->id);
		/* an open one may still get what is part of this checkpoint and not yet written */
		put64(out, segment->file == NULL ? segment->end : 0);
		put64(out, segment->file == NULL ? segment->last_lsn : 0);
		put64(out, segment->live);
		put64(out, segment->live_refs);
	}
}

/* The writer must be idle, and its last batch the one that the checkpoint ends with. */
static void
put_chain(const struct store *store, struct buf *out)
{
	size_t at = section_begin(out, SECTION_CHAIN);

	put64(out, store->writer.number);
	put64(out, store->writer.digest | (uint64_t)store->writer.group << 32);
	section_end(out, at);
}

/* Everything as it is behind the last record that was appended. */
static void
take(struct store *store, struct buf *out, uint64_t lsn, bool clean)
{
	struct buf returning;
	size_t at;

	buf_init(&returning, 0);
	put_header(store, out, lsn);
	at = section_begin(out, SECTION_COUNTERS);
	put64(out, store->next_queue_id);
	put64(out, store->next_segment_id);
	section_end(out, at);
	at = section_begin(out, SECTION_DEFINITIONS);
	store->snapshot = out;
	store->ops->snapshot(store->context, store);
	store->snapshot = NULL;
	section_end(out, at);
	at = section_begin(out, SECTION_QUEUES);
	put_queues(store, out, clean, &returning);
	section_end(out, at);
	if (returning.n > 0) {
		at = section_begin(out, SECTION_RETURNS);
		put_returns(out, &returning);
		section_end(out, at);
	}
	if (store->ops->snapshot_keys != NULL)
		put_keys(store, out);
	at = section_begin(out, SECTION_SEGMENTS);
	put_segments(store, out, lsn);
	section_end(out, at);
	buf_fini(&returning);
}

/* ---- writing it: helper thread ---- */

static int
write_file(const struct checkpoint_job *job, const char *path)
{
	struct disk_file *file;
	int error = disk_open(job->disk, path, DISK_CREATE, &file);

	if (error != 0)
		return error;
	error = disk_write(file, job->content.p, job->content.n, 0);
	if (error == 0)
		error = disk_sync(file);
	disk_close(&file);
	return error;
}

static void
run_checkpoint(struct mail *mail)
{
	struct checkpoint_job *job = container_of(mail, struct checkpoint_job, mail);
	char temporary[PATH_MAX_SIZE];
	char path[PATH_MAX_SIZE];

	checkpoint_path(temporary, job->lsn, ".tmp");
	checkpoint_path(path, job->lsn, "");
	job->error = write_file(job, temporary);
	if (job->error == 0)
		job->error = disk_rename(job->disk, temporary, path);
	/* else the space would be gone, and the name when the next one has the same LSN */
	if (job->error != 0 && disk_unlink(job->disk, temporary) < 0)
		log_warn("store: cannot remove %s", temporary);
	if (job->error == 0)
		job->error = disk_sync_dir(job->disk, CHECKPOINT_FOLDER);
	if (job->error == 0)
		job->error = superblock_write(job->superblock_file, &job->superblock);
	if (job->error != 0)
		return;
	if (job->obsolete != 0) {
		checkpoint_path(path, job->obsolete, "");
		if (disk_unlink(job->disk, path) < 0)
			log_warn("store: cannot remove %s, which is not needed any more", path);
	}
}

/* ---- when ---- */

uint64_t
checkpoint_covered(const struct store *store)
{
	const struct checkpoints *c = &store->checkpoints;

	return c->count < 2 ? 0 : c->lsns[c->count - 2];
}

/* Whether the newest one is of the same records: then it is the same file. */
static bool
renews(const struct checkpoints *c, uint64_t lsn)
{
	return c->count > 0 && c->lsns[c->count - 1] == lsn;
}

static void
note_written(struct checkpoints *c, uint64_t lsn)
{
	if (renews(c, lsn))
		return;
	if (c->count == CHECKPOINTS_KEPT)
		memmove(c->lsns, c->lsns + 1, --c->count * sizeof(uint64_t));
	c->lsns[c->count++] = lsn;
}

static void
checkpoint_arrived(struct store *store, struct mail *mail)
{
	struct checkpoint_job *job = container_of(mail, struct checkpoint_job, mail);
	struct checkpoints *c = &store->checkpoints;

	c->writing = false;
	if (job->error == 0) {
		note_written(c, job->lsn);
		store->superblock.sequence = job->superblock.sequence;
		store->superblock.checkpoint = job->lsn;
		store->superblock.clean = job->superblock.clean;
		reclaim(store);
		c->logged = 0;
	} else {
		if (c->logged != job->error)
			log_error("store: cannot write checkpoint %llu: %s",
				  (unsigned long long)job->lsn, strerror(-job->error));
		c->error = c->logged = job->error;
	}
	merge_after_checkpoint(store, job->error == 0);
	/* after an error with the next look at the free space */
	if (job->error == 0)
		make_room(store);
	buf_fini(&job->content);
	xfree(job);
}

/* Takes a checkpoint; it is written once all of it is stable. */
void
checkpoint_begin(struct store *store, bool clean)
{
	struct checkpoints *c = &store->checkpoints;
	struct checkpoint_job *job = xcalloc(1, sizeof(*job));

	assert(!c->writing);
	assert(list_empty(&store->acked));
	*job = (struct checkpoint_job){
		.mail = {.run = run_checkpoint, .arrive = checkpoint_arrived},
		.disk = store->disk,
		.superblock_file = store->superblock_file,
		.superblock = store->superblock,
		.lsn = store->next_lsn - 1,
		.obsolete = c->count == CHECKPOINTS_KEPT && !renews(c, store->next_lsn - 1)
				    ? c->lsns[0]
				    : 0,
	};
	job->superblock.checkpoint = job->lsn;
	job->superblock.clean = clean;
	buf_init(&job->content, 0);
	take(store, &job->content, job->lsn, clean);
	merge_at_checkpoint(store);
	c->writing = true;
	c->forced = false;
	c->error = 0;
	c->octets = 0;
	c->taken_us = store->queues.count * CHECKPOINT_US_PER_QUEUE +
		      job->content.n / CHECKPOINT_OCTETS_PER_US;
	c->taken_ms = store->now_ms;
	c->waiting = job;
	checkpoint_send(store);
}

void
checkpoint_send(struct store *store)
{
	struct checkpoint_job *job = store->checkpoints.waiting;

	if (job == NULL || job->lsn > store->stable)
		return;
	/* the batch that it ends with has just come back, so nothing is with the writer */
	assert(job->lsn == store->stable);
	assert(store->spare != NULL);
	put_chain(store, &job->content);
	section_end(&job->content, section_begin(&job->content, SECTION_END));
	store->checkpoints.waiting = NULL;
	worker_send(&store->helper_thread, &job->mail);
}

void
checkpoint_drop(struct store *store)
{
	struct checkpoint_job *job = store->checkpoints.waiting;

	if (job == NULL)
		return;
	store->checkpoints.waiting = NULL;
	buf_fini(&job->content);
	xfree(job);
}

uint64_t
checkpoint_due_ms(const struct store *store)
{
	const struct checkpoints *c = &store->checkpoints;

	if (!c->forced || c->writing || store->locating > 0)
		return UINT64_MAX;
	return c->taken_ms + (c->taken_us * CHECKPOINT_TIME_SHARE + 999) / 1000;
}

bool
checkpoint_is_due(const struct store *store)
{
	const struct checkpoints *c = &store->checkpoints;

	/* live octets that are still to be found would be lost with the next start */
	return !c->writing && store->locating == 0 &&
	       (c->forced || c->octets >= store->options.checkpoint_size) &&
	       (store->now_ms - c->taken_ms) * 1000 >= c->taken_us * CHECKPOINT_TIME_SHARE;
}
