/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The copying of a merge, in steps, so that reads come in between. Only messages are copied: what else the
 * sources have is in the checkpoints. A message keeps the references that are open; its LSN stays, and so
 * does the order.
 */
#include "merge.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* Octets of a source that one step goes through, a batch at least. */
#define STEP_OCTETS (1024 * 1024)

static void
temporary_path(char path[PATH_MAX_SIZE], uint64_t id)
{
	(void)snprintf(path, PATH_MAX_SIZE, LOG_FOLDER "/%010llu.tmp", (unsigned long long)id);
}

/* ---- the queues of the sources ---- */

static int
compare_queues(const void *a, const void *b)
{
	const struct merge_queue *x = a;
	const struct merge_queue *y = b;

	return x->id < y->id ? -1 : x->id > y->id;
}

static void
add_run(struct merge_job *job, const struct footer_run *run)
{
	struct merge_queue *last =
		job->queue_count == 0 ? NULL : &job->queues[job->queue_count - 1];

	if (last != NULL && last->id == run->queue_id) {
		last->first = min_u64(last->first, run->first);
		last->last = max_u64(last->last, run->last);
		return;
	}
	if (job->queue_count == job->queue_room) {
		job->queue_room = job->queue_room == 0 ? 16 : 2 * job->queue_room;
		job->queues = xrealloc(job->queues, job->queue_room * sizeof(*job->queues));
	}
	last = &job->queues[job->queue_count++];
	*last = (struct merge_queue){.id = run->queue_id, .first = run->first, .last = run->last};
	qseq_set_init(&last->settled);
}

/* Both sources named their queues in order: those of the same id become one. */
static void
join_queues(struct merge_job *job)
{
	size_t n = 0;

	if (job->queue_count < 2)
		return;
	qsort(job->queues, job->queue_count, sizeof(*job->queues), compare_queues);
	for (size_t i = 1; i < job->queue_count; i++) {
		struct merge_queue *kept = &job->queues[n];
		const struct merge_queue *next = &job->queues[i];

		if (next->id != kept->id) {
			job->queues[++n] = *next;
			continue;
		}
		kept->first = min_u64(kept->first, next->first);
		kept->last = max_u64(kept->last, next->last);
	}
	job->queue_count = n + 1;
}

static int
list_runs(struct merge_job *job, const struct reader_slot *slot)
{
	int error = slot->has_footer ? 0 : -EBADMSG;

	for (uint32_t at = 0; error == 0 && at < slot->footer.run_count; at++) {
		struct footer_run run;

		error = footer_run(&slot->footer, at, &run);
		if (error == 0)
			add_run(job, &run);
	}
	return error;
}

static int
list_source(struct merge_job *job, const struct segment_place *place)
{
	struct reader_slot *slot;
	int error = reader_open(job->reader, place->id, &slot);

	if (error != 0)
		return error;
	error = list_runs(job, slot);
	if (error != -EBADMSG)
		return error;
	error = reader_rebuild(job->reader, &slot, place);
	return error == 0 ? list_runs(job, slot) : error;
}

void
run_merge_list(struct mail *mail)
{
	struct merge_job *job = container_of(mail, struct merge_job, mail);

	for (job->source = 0; job->source < job->source_count; job->source++) {
		job->error = list_source(job, &job->sources[job->source].place);
		if (job->error != 0)
			return;
	}
	job->source = 0;
	join_queues(job);
}

/* ---- one record ---- */

static bool
is_open(const struct merge_job *job, const struct message_ref *ref)
{
	struct merge_queue key = {.id = ref->queue_id};
	const struct merge_queue *queue =
		bsearch(&key, job->queues, job->queue_count, sizeof(*job->queues), compare_queues);

	/* the index names all queues of the segment */
	assert(queue != NULL);
	return !queue->gone && !qseq_set_has(&queue->settled, ref->qseq);
}

/* The times of one kind that belong to open references, behind *p. */
static uint8_t *
copy_times(const struct merge_job *job, const struct message_record *message, enum ref_flag flag,
	   const uint8_t **times, uint8_t *p)
{
	for (uint32_t i = 0; i < message->ref_count; i++) {
		struct message_ref ref = message_ref_decode(message->refs + i * MESSAGE_REF_SIZE);

		if (!(ref.flags & flag))
			continue;
		if (is_open(job, &ref)) {
			memcpy(p, *times, 8);
			p += 8;
		}
		*times += 8;
	}
	return p;
}

/* Writes the record with its open references alone. */
static void
copy_partly(struct merge_job *job, const struct record *record,
	    const struct message_record *message, uint32_t open)
{
	const uint8_t *times = message->times;
	const uint8_t *rest;
	uint8_t *start = buf_reserve(&job->out, record->size);
	uint8_t *p = start + MESSAGE_AT_REFS;
	size_t size;

	memcpy(start, record->p, MESSAGE_AT_REFS);
	le32_store(start + MESSAGE_AT_REF_COUNT, open);
	for (uint32_t i = 0; i < message->ref_count; i++) {
		struct message_ref ref = message_ref_decode(message->refs + i * MESSAGE_REF_SIZE);

		if (!is_open(job, &ref))
			continue;
		memcpy(p, message->refs + i * MESSAGE_REF_SIZE, MESSAGE_REF_SIZE);
		p += MESSAGE_REF_SIZE;
	}
	p = copy_times(job, message, REF_DEADLINE, &times, p);
	p = copy_times(job, message, REF_DUE, &times, p);
	rest = times;
	size = (size_t)(message->body.p + message->body.n - rest);
	memcpy(p, rest, size);
	size = (size_t)(p + size - start);
	memset(start + size, 0, record_align(size) - size);
	size = record_align(size);
	le32_store(start + RECORD_AT_SIZE, (uint32_t)size);
	record_seal(start, job->salt);
	job->out.n += size;
	job->live += store_share(size, open) * open;
}

static void
copy_whole(struct merge_job *job, const struct record *record, uint32_t refs)
{
	uint8_t *p = buf_reserve(&job->out, record->size);

	memcpy(p, record->p, record->size);
	le32_store(p + RECORD_AT_CHECK, record->crc ^ job->salt);
	job->out.n += record->size;
	job->live += store_share(record->size, refs) * refs;
}

static int
copy_record(void *context, const struct record *record)
{
	struct merge_job *job = context;
	struct message_record message;
	uint32_t open = 0;
	int error;

	if (record->type != RECORD_MESSAGE)
		return 0;
	error = message_record_decode(&message, record);
	if (error != 0)
		return error;
	for (uint32_t i = 0; i < message.ref_count; i++) {
		struct message_ref ref = message_ref_decode(message.refs + i * MESSAGE_REF_SIZE);

		open += is_open(job, &ref);
	}
	job->live_refs += open;
	if (open == message.ref_count)
		copy_whole(job, record, open);
	else if (open > 0)
		copy_partly(job, record, &message, open);
	return 0;
}

/* ---- steps ---- */

static int
write_out(struct merge_job *job)
{
	int error = 0;

	if (job->out.n > 0)
		error = disk_write(job->file, job->out.p, job->out.n, job->end);
	job->end += job->out.n;
	buf_clear(&job->out);
	return error;
}

static int
begin(struct merge_job *job)
{
	char path[PATH_MAX_SIZE];
	int error;

	temporary_path(path, job->header.id);
	error = disk_open(job->disk, path, DISK_CREATE, &job->file);
	if (error == -EEXIST) {
		/* of a merge that was given up */
		error = disk_unlink(job->disk, path);
		if (error == 0)
			error = disk_open(job->disk, path, DISK_CREATE, &job->file);
	}
	job->end = SEGMENT_HEADER_SIZE;
	return error;
}

static int
open_source(struct merge_job *job)
{
	uint64_t id = job->sources[job->source].place.id;
	int error = scan_open(&job->scan, job->disk, id);
	char path[PATH_MAX_SIZE];

	job->scan.salt = job->sources[job->source].salt;
	job->scanning = error == 0;
	job->offset = SEGMENT_HEADER_SIZE;
	if (error != 0)
		return error;
	segment_path(path, id);
	return disk_open(job->disk, path, DISK_READ, &job->sources[job->source].held);
}

/* Goes on in the present source, which is open. */
static int
copy_source(struct merge_job *job)
{
	uint64_t end = job->sources[job->source].place.end;
	uint64_t until = min_u64(end, job->offset + STEP_OCTETS);
	int error = 0;

	if (job->sources[job->source].place.generation > 0)
		return scan_records(&job->scan, &job->offset, until, copy_record, job);
	while (job->offset < until && error == 0) {
		struct batch_record batch;
		uint64_t padded;

		error = scan_batch(&job->scan, job->offset, &batch, &padded, copy_record, job);
		if (error == 0)
			job->offset += padded;
	}
	return error;
}

/* Makes the new file whole: with its index all of it is synced. */
static int
make_index(struct merge_job *job)
{
	uint8_t octets[SEGMENT_HEADER_SIZE];
	char temporary[PATH_MAX_SIZE];
	struct footer footer;
	struct scan scan;
	int error;

	segment_header_encode(octets, &job->header);
	temporary_path(temporary, job->header.id);
	error = disk_write(job->file, octets, sizeof(octets), 0);
	if (error == 0)
		error = scan_open_path(&scan, job->disk, temporary, job->header.id);
	if (error != 0)
		return error;
	scan.salt = job->salt;
	error = footer_build(job->file, &scan, job->end, job->header.last_lsn,
			     job->header.generation, NULL);
	scan_close(&scan);
	if (error == 0)
		error = footer_open(&footer, job->file);
	if (error != 0)
		return error;
	job->first_timed_ms = footer.first_timed_ms;
	job->step = MERGE_STEP_NAME;
	return 0;
}

/* Puts it into the left source's place, then removes the right one. */
static int
take_name(struct merge_job *job)
{
	char temporary[PATH_MAX_SIZE];
	char path[PATH_MAX_SIZE];
	int error;

	temporary_path(temporary, job->header.id);
	segment_path(path, job->header.id);
	job->named = true;
	error = disk_rename(job->disk, temporary, path);
	if (error == 0)
		error = disk_sync_dir(job->disk, LOG_FOLDER);
	if (error != 0)
		return error;
	job->step = MERGE_STEP_DONE;
	reader_forget(job->reader, job->header.id);
	if (job->header.swallowed == 0)
		return 0;
	reader_forget(job->reader, job->header.swallowed);
	segment_path(path, job->header.swallowed);
	error = disk_unlink(job->disk, path);
	return error == 0 ? disk_sync_dir(job->disk, LOG_FOLDER) : error;
}

/* The room that it took is wanted back at once. */
static void
discard(struct merge_job *job)
{
	char path[PATH_MAX_SIZE];

	if (job->file == NULL)
		return;
	disk_close(&job->file);
	temporary_path(path, job->header.id);
	if (disk_unlink(job->disk, path) < 0)
		log_warn("store: cannot remove %s", path);
}

static int
copy_some(struct merge_job *job)
{
	int error = job->file == NULL ? begin(job) : 0;

	if (error == 0 && job->source < job->source_count && !job->scanning)
		error = open_source(job);
	if (error == 0 && job->scanning)
		error = copy_source(job);
	if (error == 0)
		error = write_out(job);
	if (error == 0 && job->scanning && job->offset >= job->sources[job->source].place.end) {
		scan_close(&job->scan);
		job->scanning = false;
		job->source++;
	}
	if (error == 0 && job->source == job->source_count)
		job->step = MERGE_STEP_INDEX;
	return error;
}

void
run_merge_step(struct mail *mail)
{
	struct merge_job *job = container_of(mail, struct merge_job, mail);

	switch (job->step) {
	case MERGE_STEP_COPY:
		job->error = copy_some(job);
		break;
	case MERGE_STEP_INDEX:
		job->error = make_index(job);
		break;
	case MERGE_STEP_NAME:
		job->error = take_name(job);
		break;
	case MERGE_STEP_DONE:
		assert(false);
	}
	if (job->error != 0 && !job->named)
		discard(job);
}

static void
close_sources(struct merge_job *job)
{
	for (size_t i = 0; i < countof(job->sources); i++)
		if (job->sources[i].held != NULL)
			disk_close(&job->sources[i].held);
}

void
run_merge_release(struct mail *mail)
{
	close_sources(container_of(mail, struct merge_job, mail));
}

void
merge_job_fini(struct merge_job *job)
{
	close_sources(job);
	for (size_t i = 0; i < job->queue_count; i++)
		qseq_set_fini(&job->queues[i].settled);
	xfree(job->queues);
	if (job->scanning)
		scan_close(&job->scan);
	if (job->file != NULL)
		disk_close(&job->file);
	buf_fini(&job->out);
	xfree(job);
}
