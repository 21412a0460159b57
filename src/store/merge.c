/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The course of a merge. The helper lists the queues of the sources; then a checkpoint is taken, and what
 * it knows to be settled may be left out: the marks are on disk before the messages are gone. Then the
 * helper copies, step by step, while messages are settled and read as ever; at the end the sources' place
 * is taken by one segment with what is open in both by then.
 *
 * A source is covered by the second-newest checkpoint, so that a start that must do without the newest
 * one still needs nothing of it but messages.
 */
#include "merge.h"

#include <errno.h>

#include "checkpoint.h"

/* After a merge that found no room. */
#define RETRY_MS 10000
/* How long after something was logged one is looked for: there may be thousands of segments. */
#define LOOK_MS 1000
/* Percent of garbage that is worth a merge while the disk is low. */
#define LOW_PERCENT 25

/* ---- the end ---- */

static void
set_merging(struct store *store, const struct merge_job *job, bool merging)
{
	for (size_t i = 0; i < job->source_count; i++) {
		struct segment *segment = segment_by_id(store, job->sources[i].place.id);

		assert(segment != NULL);
		segment->merging = merging;
	}
}

/* Nothing is merged any more; the job is the caller's. */
static struct merge_job *
detach(struct store *store)
{
	struct merge_job *job = store->merge;

	set_merging(store, job, false);
	store->merge = NULL;
	store->merge_state = MERGE_IDLE;
	return job;
}

static void
give_up(struct store *store)
{
	merge_job_fini(detach(store));
}

static void
release_arrived(struct store *store, struct mail *mail)
{
	(void)store;
	merge_job_fini(container_of(mail, struct merge_job, mail));
}

/* Octets that are live in the segments that the job knows. */
static uint64_t
live_octets(const struct store *store, const struct merge_job *job)
{
	uint64_t live = 0;

	for (size_t i = 0; i < job->source_count; i++)
		live += segment_by_id(store, job->sources[i].place.id)->live;
	return live;
}

/* What is live in the new segment: what was copied without what was settled since. */
static uint64_t
live_left(const struct store *store, const struct merge_job *job)
{
	uint64_t now = live_octets(store, job);
	uint64_t settled = job->marked_live - min_u64(job->marked_live, now);

	return job->live - min_u64(job->live, settled);
}

static void
take_place(struct store *store)
{
	struct merge_job *job = store->merge;
	struct segment *left = segment_by_id(store, job->header.id);
	struct segment *right =
		job->header.swallowed == 0 ? NULL : segment_by_id(store, job->header.swallowed);
	uint64_t refs = left->live_refs + (right == NULL ? 0 : right->live_refs);

	log_debug("store: compacted log/%010llu.seg octets=%llu messages=%llu",
		  (unsigned long long)job->header.id, (unsigned long long)job->end,
		  (unsigned long long)job->live_refs);
	/* what was settled since the marks were taken is off the sources already; what was kept is the truth, but
	 * that it has nothing of queues that went with messages still in somebody's hands, and those are released
	 * one by one */
	if (refs > job->live_refs && store->unreleased == 0) {
		log_warn("store: log/%010llu.seg was said to have %llu messages, it has %llu",
			 (unsigned long long)job->header.id, (unsigned long long)refs,
			 (unsigned long long)job->live_refs);
		refs = job->live_refs;
	}
	left->generation = job->header.generation;
	left->salt = job->salt;
	left->last_lsn = job->header.last_lsn;
	left->end = left->capacity = left->written = job->end;
	left->live = refs == 0 ? 0 : live_left(store, job);
	left->live_refs = refs;
	left->empty_lsn = 0;
	if (right != NULL)
		segment_remove(store, right);
	timed_sealed(store, left, job->first_timed_ms);
	store->merged_octets += job->end - SEGMENT_HEADER_SIZE;
	job->source_count = 1;
	store->merge_retry_ms = 0;
	store->merge_lacks_room = false;
	job = detach(store);
	job->mail = (struct mail){.run = run_merge_release, .arrive = release_arrived};
	worker_send(&store->index_thread, &job->mail);
}

/* A message of one of the sources cannot be read. What else they have can, so they stay as they are. */
static void
leave_alone(struct store *store)
{
	const struct merge_job *job = store->merge;
	size_t at = min_u64(job->source, job->source_count - 1);

	log_error("store: log/%010llu.seg is damaged: it is not compacted, `pannierctl store "
		  "verify' says more",
		  (unsigned long long)job->sources[at].place.id);
	segment_by_id(store, job->sources[at].place.id)->unsound = true;
	give_up(store);
	merge_consider(store);
}

static void
step_failed(struct store *store, int error)
{
	const struct merge_job *job = store->merge;

	if (error == -EBADMSG && !job->named) {
		leave_alone(store);
	} else if (error == -ENOSPC && !job->named) {
		if (!store->merge_lacks_room)
			log_warn("store: no room to compact log/%010llu.seg",
				 (unsigned long long)job->header.id);
		store->merge_lacks_room = true;
		store->merge_retry_ms = store->now_ms + RETRY_MS;
		give_up(store);
	} else {
		store_fail(store, error, "the log could not be compacted");
	}
}

/* To the thread that the step is for: what takes long would keep reads waiting on the helper. */
static void
send_step(struct store *store)
{
	struct merge_job *job = store->merge;
	bool is_long = job->step == MERGE_STEP_INDEX;

	worker_send(is_long ? &store->index_thread : &store->helper_thread, &job->mail);
}

static void
step_arrived(struct store *store, struct mail *mail)
{
	struct merge_job *job = container_of(mail, struct merge_job, mail);
	int error = job->error;

	if (error != 0) {
		step_failed(store, error);
		return;
	}
	if (job->step == MERGE_STEP_DONE) {
		take_place(store);
		reclaim(store);
		merge_consider(store);
		return;
	}
	if (store->closing) {
		give_up(store);
		return;
	}
	/* publishers go first */
	if (store->spare == NULL && store->filling->opened_ms != 0 &&
	    store->now_ms > store->filling->opened_ms + store->options.flush_interval_ms)
		store->merge_state = MERGE_PAUSED;
	else
		send_step(store);
}

void
merge_resume(struct store *store)
{
	if (store->merge_state != MERGE_PAUSED)
		return;
	store->merge_state = MERGE_COPYING;
	send_step(store);
}

/* ---- the beginning ---- */

static void
list_arrived(struct store *store, struct mail *mail)
{
	struct merge_job *job = container_of(mail, struct merge_job, mail);

	if (job->error == -EBADMSG) {
		leave_alone(store);
		return;
	}
	if (job->error != 0) {
		store_fail(store, job->error, "the index of a segment could not be read");
		return;
	}
	store->merge_state = MERGE_LISTED;
	store->checkpoints.forced = true;
}

static void
add_source(struct merge_job *job, struct segment *segment)
{
	segment->merging = true;
	job->sources[job->source_count].place = segment_place_of(segment);
	job->sources[job->source_count].salt = segment->salt;
	job->source_count++;
	job->header.generation = (uint32_t)max_u64(job->header.generation, segment->generation + 1);
	job->header.last_lsn = segment->last_lsn;
}

static void
begin_merge(struct store *store, struct segment *left, struct segment *right)
{
	struct merge_job *job = xcalloc(1, sizeof(*job));

	*job = (struct merge_job){
		.mail = {.run = run_merge_list, .arrive = list_arrived},
		.disk = store->disk,
		.reader = store->reader,
		.header = {.id = left->id,
			   .first_lsn = left->first_lsn,
			   .term = store->superblock.term,
			   .created_ms = store->wall_ms},
	};
	memcpy(job->header.uuid, store->superblock.uuid, STORE_UUID_SIZE);
	buf_init(&job->out, 0);
	add_source(job, left);
	if (right != NULL) {
		add_source(job, right);
		job->header.swallowed = right->id;
	}
	job->salt = segment_salt(job->header.uuid, job->header.id, job->header.generation);
	store->merge = job;
	store->merge_state = MERGE_LISTING;
	worker_send(&store->helper_thread, &job->mail);
}

/* The sizes of all segments; whether a checkpoint would make more of them eligible. */
static bool
list_sizes(const struct store *store, struct merge_size *sizes)
{
	uint64_t covered = checkpoint_covered(store);
	bool waits = false;

	for (size_t i = 0; i < store->segment_count; i++) {
		const struct segment *segment = store->segments[i];
		bool sealed = segment->file == NULL && segment->tail == NULL;

		sizes[i] = (struct merge_size){
			.octets = segment->end - SEGMENT_HEADER_SIZE,
			.live = segment->live,
			.eligible = sealed && !segment->unsound && segment->last_lsn <= covered,
		};
		waits = waits ||
			(sealed && segment->last_lsn > covered && merge_is_worth(&sizes[i]));
	}
	return waits;
}

void
merge_consider(struct store *store)
{
	struct merge_size *sizes;
	enum merge_choice choice = MERGE_NOTHING;
	size_t left = 0;
	uint32_t percent = store->options.garbage_percent;
	uint32_t files = store->options.garbage_files;
	bool waits;

	if (store->space_low) {
		percent = (uint32_t)min_u64(percent, LOW_PERCENT);
		files = 2;
	}
	if (store->merge_state != MERGE_IDLE || store->closing || store->failed ||
	    store->segment_count < files || store->now_ms < store->merge_retry_ms)
		return;
	sizes = xmalloc(store->segment_count * sizeof(*sizes));
	waits = list_sizes(store, sizes);
	if (merge_is_due(sizes, store->segment_count, percent, files)) {
		choice = merge_plan(sizes, store->segment_count,
				    store->options.file_size - SEGMENT_HEADER_SIZE, &left);
		if (choice == MERGE_NOTHING && waits)
			store->checkpoints.forced = true;
	}
	xfree(sizes);
	if (choice != MERGE_NOTHING)
		begin_merge(store, store->segments[left],
			    choice == MERGE_PAIR ? store->segments[left + 1] : NULL);
}

void
merge_at_checkpoint(struct store *store)
{
	struct merge_job *job = store->merge;

	if (store->merge_state != MERGE_LISTED)
		return;
	job->marked_live = live_octets(store, job);
	for (size_t i = 0; i < job->queue_count; i++) {
		struct merge_queue *queue = &job->queues[i];
		const struct queue_log *log = queue_log_find(store, queue->id);

		queue->gone = log == NULL;
		if (log == NULL)
			continue;
		qseq_set_fini(&queue->settled);
		qseq_set_copy_range(&queue->settled, &log->settled, queue->first, queue->last);
	}
	store->merge_state = MERGE_MARKED;
}

void
merge_after_checkpoint(struct store *store, bool written)
{
	struct merge_job *job = store->merge;

	if (store->merge_state == MERGE_MARKED && written && !store->closing) {
		store->merge_state = MERGE_COPYING;
		job->mail = (struct mail){.run = run_merge_step, .arrive = step_arrived};
		send_step(store);
	} else if (store->merge_state == MERGE_MARKED) {
		give_up(store);
	}
	/* while there is no room for a checkpoint, each try would cost more of what there is */
	if (!written)
		store->merge_retry_ms = store->now_ms + RETRY_MS;
	merge_consider(store);
}

void
merge_after_batch(struct store *store)
{
	if (store->merge_look_ms == 0 && store->segment_count >= store->options.garbage_files)
		store->merge_look_ms = store->now_ms + LOOK_MS;
}

static bool
is_past(uint64_t *ms, uint64_t now_ms)
{
	if (*ms == 0 || now_ms < *ms)
		return false;
	*ms = 0;
	return true;
}

void
merge_look(struct store *store)
{
	bool look = is_past(&store->merge_look_ms, store->now_ms);

	if (is_past(&store->merge_retry_ms, store->now_ms) || look)
		merge_consider(store);
}

uint64_t
merge_due_ms(const struct store *store)
{
	uint64_t due = UINT64_MAX;

	if (store->merge_look_ms != 0)
		due = store->merge_look_ms;
	if (store->merge_retry_ms != 0)
		due = min_u64(due, store->merge_retry_ms);
	return store->failed ? UINT64_MAX : due;
}

void
merge_fini(struct store *store)
{
	if (store->merge == NULL)
		return;
	merge_job_fini(store->merge);
	store->merge = NULL;
}
