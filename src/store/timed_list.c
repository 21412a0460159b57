/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What of one queue has a time, in order, a page at a time: for whoever wants to see it, not to be told when it comes.
 * What is in memory is collected at once; the helper thread looks through the sections of the sealed segments, each
 * from the place on that is asked for, and keeps the first ones of all.
 */
#include "timed.h"

#include <errno.h>

#include "reader.h"

struct list_job {
	struct mail mail;
	struct reader *reader;
	struct timed after; // in that order; of the queue
	uint32_t max;
	struct qseq_set settled;	// owns; those in it are left out
	struct segment_place *segments; // owns; sealed ones
	uint32_t segment_count;
	struct timed
		*items; // owns; the first ones so far, in order, with room for one more than max
	uint32_t count;
	void (*done)(void *context, const struct store_deadline *items, uint32_t count);
	void *context;
	int error;
};

static bool
is_wanted(const struct list_job *job, const struct timed *item)
{
	return item->queue_id == job->after.queue_id && timed_is_before(&job->after, item) &&
	       !qseq_set_has(&job->settled, item->qseq);
}

/* Whether nothing from this one on can be one of the first. */
static bool
is_behind(const struct list_job *job, const struct timed *item)
{
	return job->count == job->max && !timed_is_before(item, &job->items[job->count - 1]);
}

static void
keep(struct list_job *job, const struct timed *item)
{
	uint32_t low = 0;
	uint32_t high = job->count;

	if (!is_wanted(job, item) || is_behind(job, item))
		return;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (timed_is_before(&job->items[middle], item))
			low = middle + 1;
		else
			high = middle;
	}
	memmove(&job->items[low + 1], &job->items[low], (job->count - low) * sizeof(*job->items));
	job->items[low] = *item;
	job->count = (uint32_t)min_u64(job->count + 1, job->max);
}

/* ---- the helper's part ---- */

/* Keeps what is wanted of a piece; whether there may be more behind it. */
static bool
keep_piece(struct list_job *job, const struct timed_piece *piece, uint64_t lsn)
{
	for (uint32_t i = piece->at; i < piece->count; i++) {
		struct timed item = piece->items[i];

		if (is_behind(job, &item))
			return false;
		item.lsn = lsn;
		keep(job, &item);
	}
	return piece->next_ms != UINT64_MAX;
}

static int
look_through(struct list_job *job, const struct segment_place *place)
{
	struct reader_slot *slot;
	struct timed_piece piece;
	int error = timed_find(job->reader, place, &job->after, 0, &slot, &piece);
	bool more = error == 0 && piece.items != NULL && keep_piece(job, &piece, place->last_lsn);

	while (more) {
		xfree(piece.items);
		piece.items = NULL;
		error = footer_timed_piece(&slot->footer, piece.next, &piece);
		more = error == 0 && keep_piece(job, &piece, place->last_lsn);
	}
	xfree(piece.items);
	return error;
}

static void
run_list(struct mail *mail)
{
	struct list_job *job = container_of(mail, struct list_job, mail);

	for (uint32_t i = 0; i < job->segment_count && job->error == 0; i++) {
		job->error = look_through(job, &job->segments[i]);
		/* the others are worth something without it: it was said when it was read for what is due */
		if (job->error == -EBADMSG || job->error == -ENOSPC)
			job->error = 0;
	}
}

/* ---- the broker thread's ---- */

static void list_arrived(struct store *store, struct mail *mail);

/* What there is to look through now, and what is in memory. */
static void
collect(struct store *store, struct list_job *job)
{
	const struct queue_log *log = queue_log_find(store, job->after.queue_id);
	struct timed_heap *heaps[TIMED_HEAPS];
	uint32_t n = timed_heaps(store, heaps);

	qseq_set_copy_range(&job->settled, &log->settled, 1, QSEQ_MAX);
	job->segments = xmalloc((store->segment_count + 1) * sizeof(*job->segments));
	for (size_t i = 0; i < store->segment_count; i++)
		if (store->segments[i]->tail == NULL)
			job->segments[job->segment_count++] = segment_place_of(store->segments[i]);
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t k = 0; k < heaps[i]->count; k++)
			keep(job, &heaps[i]->items[k]);
}

static void
drop(struct list_job *job)
{
	qseq_set_fini(&job->settled);
	xfree(job->segments);
	job->segments = NULL;
	job->segment_count = 0;
	job->count = 0;
	job->error = 0;
}

static void
tell(struct store *store, struct list_job *job)
{
	struct queue_log *log = queue_log_find(store, job->after.queue_id);
	uint32_t count = log == NULL || store->closing ? 0 : job->count;
	struct store_deadline *items = xmalloc((count + 1) * sizeof(*items));

	for (uint32_t i = 0; i < count; i++)
		items[i] = (struct store_deadline){
			.log = log,
			.qseq = job->items[i].qseq,
			.time_ms = job->items[i].time_ms,
			.place = {job->items[i].lsn, job->items[i].share, job->items[i].body_size,
				  0},
		};
	job->done(job->context, items, count);
	xfree(items);
}

static void
list_arrived(struct store *store, struct mail *mail)
{
	struct list_job *job = container_of(mail, struct list_job, mail);

	/* a file went into another one meanwhile */
	if (job->error == -ENOENT && !store->closing &&
	    queue_log_find(store, job->after.queue_id) != NULL) {
		drop(job);
		collect(store, job);
		worker_send(&store->helper_thread, &job->mail);
		return;
	}
	if (job->error != 0 && job->error != -ENOENT)
		store_fail(store, job->error, "the log could not be read");
	tell(store, job);
	drop(job);
	xfree(job->items);
	xfree(job);
}

void
store_list_deadlines(struct store *store, const struct queue_log *log,
		     const struct store_deadline *after, uint32_t max,
		     void (*done)(void *context, const struct store_deadline *items,
				  uint32_t count),
		     void *context)
{
	struct list_job *job = xcalloc(1, sizeof(*job));

	assert_thread(THREAD_BROKER);
	assert(max > 0);
	*job = (struct list_job){
		.mail = {.run = run_list, .arrive = list_arrived},
		.reader = store->reader,
		.after = {.time_ms = after->time_ms, .queue_id = log->id, .qseq = after->qseq},
		.max = max,
		.items = xmalloc((max + 1) * sizeof(struct timed)),
		.done = done,
		.context = context,
	};
	collect(store, job);
	worker_send(&store->helper_thread, &job->mail);
}
