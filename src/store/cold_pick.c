/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Single messages of the cold part: read where they are, or settled there. One such read of a queue at a time,
 * beside its other reads: segment by segment, a job for each, until all were looked for. What came to hand or was
 * settled in the meantime is left out.
 */
#include "cold.h"

#include <errno.h>
#include <stdlib.h>

#include "tail.h"

/* Octets that one job brings, but for its first message. */
#define PICK_OCTETS (4 * 1024 * 1024)

/* What is still to be read of one queue. */
struct picking {
	struct queue_log *log;	  // borrows: whose it is
	struct list_link waiting; // in store->picking: the next one is not written yet
	uint64_t ticket;
	uint32_t count;
	uint32_t at; // of the next one
	struct store_pick picks[];
};

/* ---- settling ---- */

bool
store_is_cold(const struct queue_log *log, uint64_t qseq)
{
	return log->cold_count > 0 && qseq >= log->cold_from && cold_is_wanted(log, qseq);
}

uint64_t
store_ack_cold(struct store *store, struct queue_log *log, uint64_t qseq,
	       const struct stored_place *place, enum ack_reason reason)
{
	uint64_t lsn;

	assert(store_is_cold(log, qseq));
	lsn = store_ack(store, log, qseq, place, reason);
	cold_count_out(store, log, place->body_size);
	return lsn;
}

/* ---- what came ---- */

static const struct read_item *
find_item(const struct read_job *job, uint32_t *at, uint64_t qseq)
{
	while (*at < job->item_count && job->items[*at].qseq < qseq)
		++*at;
	return *at < job->item_count && job->items[*at].qseq == qseq ? &job->items[*at] : NULL;
}

static void
give(struct store *store, struct read_job *job, struct queue_log *log)
{
	uint32_t at = 0;

	for (uint32_t i = 0; i < job->pick_count; i++) {
		uint64_t qseq = job->picks[i].qseq;
		const struct read_item *item = find_item(job, &at, qseq);
		struct stored_message message;

		if (!store_is_cold(log, qseq))
			continue;
		if (item == NULL)
			log_error("store: a message cannot be found, its record is damaged: "
				  "log/%010llu.seg queue=%llu number=%llu; it is left out",
				  (unsigned long long)job->segments[0].id,
				  (unsigned long long)log->id, (unsigned long long)qseq);
		if (item == NULL || item->damaged) {
			cold_leave_unread(log, qseq);
			cold_count_out(store, log,
				       item == NULL || job->tail_segment != 0 ? 0
									      : item->body_size);
			continue;
		}
		read_item_message(job, item, &message);
		store->ops->read_this(store->context, log, qseq, &message,
				      qseq < log->redelivered_below);
	}
}

static void read_next(struct store *store, struct picking *picking);

static void
end(struct store *store, struct queue_log *log)
{
	xfree(log->picking);
	log->picking = NULL;
	store->ops->read_these_end(store->context, log);
}

/* What the queue asked for, when this job is of that; NULL: nobody waits for it any more. */
static struct picking *
picking_of(const struct store *store, const struct read_job *job)
{
	const struct queue_log *log = queue_log_find(store, job->queue_id);

	/* who gets a message may settle it, for which a store that ends has no room any more */
	if (store->closing || log == NULL || log->picking == NULL ||
	    log->picking->ticket != job->ticket)
		return NULL;
	return log->picking;
}

static void
pick_arrived(struct store *store, struct mail *mail)
{
	struct read_job *job = container_of(mail, struct read_job, mail);
	struct picking *picking = picking_of(store, job);
	bool is_end = picking != NULL && picking->at == picking->count;

	/* it was merged into the one before while this waited: what is in it is looked for there */
	if (job->error == -ENOENT && segment_by_id(store, job->segments[0].id) == NULL)
		job->error = 0;
	/* those that were left for the next job */
	while (job->cut && job->pick_count > 0 && job->picks[job->pick_count - 1].qseq >= job->next)
		job->pick_count--;
	if (job->error != 0) {
		store_fail(store, job->error, "the log could not be read");
	} else if (picking != NULL) {
		picking->at += job->pick_count;
		give(store, job, picking->log);
		picking = picking_of(store, job);
	}
	if (picking != NULL && is_end)
		end(store, picking->log);
	else if (picking != NULL && job->error == 0)
		read_next(store, picking);
	read_job_free(job);
}

/* ---- what to read ---- */

/* Passes over those that need not be read any more; NULL: there are no others. */
static const struct store_pick *
next_pick(struct picking *picking)
{
	while (picking->at < picking->count &&
	       !store_is_cold(picking->log, picking->picks[picking->at].qseq))
		picking->at++;
	return picking->at == picking->count ? NULL : &picking->picks[picking->at];
}

/* Whether it has a place in a segment. */
static bool
is_placed(const struct store *store, const struct store_pick *pick)
{
	const struct batch *filling = store->filling;

	return filling->count == 0 || pick->place.lsn < filling->first_lsn;
}

static struct read_job *
job_new(struct store *store, const struct picking *picking)
{
	struct read_job *job = read_job_new(store, picking->log);

	job->mail = (struct mail){.run = run_pick, .arrive = pick_arrived};
	job->ticket = picking->ticket;
	job->octets_max = PICK_OCTETS;
	job->picks = xmalloc((picking->count - picking->at + 1) * sizeof(*job->picks));
	job->segments = xcalloc(1, sizeof(*job->segments));
	return job;
}

/* Those from the next one on that are in this segment, in order. */
static void
list_picks(const struct store *store, const struct segment *segment, const struct picking *picking,
	   struct read_job *job)
{
	for (uint32_t i = picking->at; i < picking->count; i++) {
		const struct store_pick *pick = &picking->picks[i];

		if (!is_placed(store, pick) || segment_of(store, pick->place.lsn) != segment)
			break;
		job->picks[job->pick_count++] = *pick;
	}
	job->segments[0] = segment_place_of(segment);
	job->segment_count = 1;
}

/* Finds them in the segment's tail; those from the first one on that is not written yet are left. */
static void
list_tail(const struct segment *segment, struct queue_log *log, struct read_job *job)
{
	const struct tail_place *place = tail_place(log, segment->id);
	uint32_t index = place == NULL ? 0 : place->first;
	uint32_t at = 0;

	job->tail_segment = segment->id;
	while (index != 0 && at < job->pick_count) {
		const struct tail_entry *entry = tail_entry(segment->tail, index - 1);
		uint64_t qseq = tail_qseq(entry, place->first_qseq);

		if ((uint64_t)entry->offset * RECORD_ALIGNMENT >= segment->written) {
			while (job->pick_count > at && job->picks[job->pick_count - 1].qseq >= qseq)
				job->pick_count--;
			break;
		}
		while (at < job->pick_count && job->picks[at].qseq < qseq)
			at++;
		if (at < job->pick_count && job->picks[at].qseq == qseq)
			read_job_add_tail(job, entry, qseq);
		index = entry->next;
	}
}

static void
read_next(struct store *store, struct picking *picking)
{
	const struct store_pick *pick = next_pick(picking);
	const struct segment *segment;
	struct read_job *job;

	if (store->closing)
		return;
	job = job_new(store, picking);
	if (pick != NULL && is_placed(store, pick)) {
		segment = segment_of(store, pick->place.lsn);
		assert(segment != NULL);
		list_picks(store, segment, picking, job);
		if (segment->tail != NULL)
			list_tail(segment, picking->log, job);
	}
	/* with nothing to do it tells that all is done: who asks expects that later */
	if (pick == NULL || job->pick_count > 0) {
		worker_send(&store->helper_thread, &job->mail);
		return;
	}
	read_job_free(job);
	list_append(&store->picking, &picking->waiting);
}

static int
by_number(const void *left, const void *right)
{
	return compare_u64(&((const struct store_pick *)left)->qseq,
			   &((const struct store_pick *)right)->qseq);
}

void
store_sort_picks(struct store_pick *picks, uint32_t count)
{
	if (count > 1)
		qsort(picks, count, sizeof(*picks), by_number);
}

void
store_read_these(struct store *store, struct queue_log *log, const struct store_pick *picks,
		 uint32_t count)
{
	struct picking *picking;

	assert_thread(THREAD_BROKER);
	assert(log->picking == NULL);
	picking = xmalloc(sizeof(*picking) + count * sizeof(*picks));
	*picking = (struct picking){.log = log, .ticket = ++store->pick_ticket, .count = count};
	if (count > 0)
		memcpy(picking->picks, picks, count * sizeof(*picks));
	for (uint32_t i = 1; i < count; i++)
		assert(picks[i - 1].qseq < picks[i].qseq);
	log->picking = picking;
	read_next(store, picking);
}

void
pick_retry(struct store *store)
{
	for (size_t n = store->picking.count; n > 0; n--) {
		struct picking *picking = list_first(&store->picking, struct picking, waiting);

		list_remove(&store->picking, &picking->waiting);
		read_next(store, picking);
	}
}

void
pick_forget(struct store *store, struct queue_log *log)
{
	if (log->picking == NULL)
		return;
	if (list_linked(&log->picking->waiting))
		list_remove(&store->picking, &log->picking->waiting);
	xfree(log->picking);
	log->picking = NULL;
}
