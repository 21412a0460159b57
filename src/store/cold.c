/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages come back from the disk in order, one read of a queue at a time: first from sealed segments,
 * through their footers, then from the segments that have none yet, through their tails. What is not
 * written yet waits for its batch.
 */
#include "cold.h"

#include "merge.h"
#include "tail.h"

void
store_cold_push(struct queue_log *log, uint64_t qseq, uint32_t body_size)
{
	if (log->cold_count++ == 0)
		log->cold_from = qseq;
	log->cold_octets += body_size;
}

/* What is before cold_from is passed over again. */
static void
rewind_tails(struct queue_log *log)
{
	for (size_t i = 0; i < countof(log->tails); i++)
		log->tails[i].cursor = log->tails[i].first;
}

void
store_cold_return(struct queue_log *log, uint64_t first, uint64_t count, uint64_t octets)
{
	assert(!log->reading);
	assert(log->cold_count == 0 || first < log->cold_from);
	log->cold_from = first;
	log->cold_count += count;
	log->cold_octets += octets;
	log->cold_lsn = 0;
	rewind_tails(log);
}

void
cold_begin(struct queue_log *log)
{
	log->cold_count = log->count;
	log->cold_octets = log->octets;
	log->cold_from = qseq_set_next_open(&log->settled, 1);
}

/* ---- what came ---- */

/* Nothing is cold any more. */
static void
forget_reads(struct store *store, struct queue_log *log)
{
	log->cold_octets = 0;
	log->reading = false;
	log->read_ticket++;
	if (list_linked(&log->wanting))
		list_remove(&store->wanting, &log->wanting);
}

void
cold_count_out(struct store *store, struct queue_log *log, uint64_t octets)
{
	assert(log->cold_count > 0);
	log->cold_count--;
	log->cold_octets -= min_u64(log->cold_octets, octets);
	if (log->cold_count == 0)
		forget_reads(store, log);
}

void
cold_leave_unread(struct queue_log *log, uint64_t qseq)
{
	if (log->unreadable == NULL) {
		log->unreadable = xmalloc(sizeof(*log->unreadable));
		qseq_set_init(log->unreadable);
	}
	qseq_set_add(log->unreadable, qseq, 1);
	log->damaged++;
}

/* What is nowhere: nobody waits for it any longer. It stays open in the store. */
static void
lose(struct store *store, const struct read_job *job, struct queue_log *log)
{
	log_error("store: messages cannot be found, their records are damaged: queue=%llu "
		  "count=%llu; they "
		  "are left out, `pannierctl store verify' says more",
		  (unsigned long long)log->id, (unsigned long long)job->lost);
	/* some may have been settled meanwhile */
	log->damaged += min_u64(log->cold_count, job->lost);
	log->cold_count -= min_u64(log->cold_count, job->lost);
	log->cold_octets -= min_u64(log->cold_octets, job->lost_octets);
	store->ops->read_end(store->context, log);
}

void
read_item_message(const struct read_job *job, const struct read_item *item,
		  struct stored_message *message)
{
	const uint8_t *p = job->octets.p + item->offset;
	struct record record = {
		.p = p,
		.size = le32_load(p + RECORD_AT_SIZE),
		.type = p[RECORD_AT_TYPE],
		.version = p[RECORD_AT_VERSION],
		.lsn = le64_load(p + RECORD_AT_LSN),
	};
	int error = message_record_decode(&message->record, &record);

	assert(error == 0);
	message->lsn = record.lsn;
	message->record_size = record.size;
}

static void
give(struct store *store, struct read_job *job, struct queue_log *log)
{
	for (uint32_t i = 0; i < job->item_count; i++) {
		const struct read_item *item = &job->items[i];
		struct stored_message message;

		/* it was, while it was being read */
		if (qseq_set_has(&log->settled, item->qseq))
			continue;
		assert(log->cold_count > 0);
		log->cold_count--;
		if (item->damaged) {
			cold_leave_unread(log, item->qseq);
			/* a tail does not know what its body was */
			if (job->tail_segment == 0)
				log->cold_octets -= min_u64(log->cold_octets, item->body_size);
			continue;
		}
		read_item_message(job, item, &message);
		log->cold_lsn = message.lsn;
		log->cold_octets -= message.record.body.n;
		store->ops->read(store->context, log, item->qseq, &message,
				 item->qseq < log->redelivered_below);
	}
}

static void
read_arrived(struct store *store, struct mail *mail)
{
	struct read_job *job = container_of(mail, struct read_job, mail);
	struct queue_log *log = queue_log_find(store, job->queue_id);

	if (log != NULL && log->read_ticket == job->ticket) {
		log->reading = false;
		if (job->lost != 0) {
			lose(store, job, log);
		} else if (job->error == 0) {
			log->cold_from = job->next;
			if (job->exhausted)
				log->cold_lsn = job->last_lsn;
			if (job->cut)
				rewind_tails(log);
			give(store, job, log);
			if (log->cold_count == 0)
				log->cold_octets = 0;
			/* sealed segments had nothing of it: whoever waits waits for the tails */
			if (job->item_count == 0)
				store_read(store, log, log->want_count, log->want_octets);
			else
				store->ops->read_end(store->context, log);
		}
	}
	if (job->error != 0)
		store_fail(store, job->error, "the log could not be read");
	read_job_free(job);
}

/* ---- what to read ---- */

struct read_job *
read_job_new(struct store *store, struct queue_log *log)
{
	struct read_job *job = xcalloc(1, sizeof(*job));

	job->reader = store->reader;
	job->queue_id = log->id;
	qseq_set_init(&job->settled);
	qseq_set_init(&job->unreadable);
	buf_init(&job->octets, 0);
	return job;
}

void
read_job_free(struct read_job *job)
{
	qseq_set_fini(&job->settled);
	qseq_set_fini(&job->unreadable);
	buf_fini(&job->octets);
	xfree(job->segments);
	xfree(job->items);
	xfree(job->picks);
	xfree(job);
}

static struct read_job *
job_new(struct store *store, struct queue_log *log, uint32_t count, uint64_t octets)
{
	struct read_job *job = read_job_new(store, log);

	job->mail = (struct mail){.run = run_read, .arrive = read_arrived};
	job->ticket = log->read_ticket;
	job->from = log->cold_from;
	job->octets_max = octets;
	job->count_max = count;
	return job;
}

/* Whether the segment has messages behind this LSN; or, if it is the left source of a merge, the right one
 * has: they may be in the left one when the helper comes to that. */
static bool
may_have(const struct store *store, size_t at, uint64_t lsn)
{
	const struct segment *segment = store->segments[at];

	if (segment->merging && at + 1 < store->segment_count && store->segments[at + 1]->merging)
		segment = store->segments[at + 1];
	return segment->last_lsn > lsn;
}

/* The sealed segments that may have more messages of the queue. */
static void
list_segments(struct store *store, const struct queue_log *log, struct read_job *job)
{
	job->segments = xmalloc((store->segment_count + 1) * sizeof(*job->segments));
	for (size_t i = 0; i < store->segment_count; i++) {
		const struct segment *segment = store->segments[i];

		if (segment->tail != NULL || !may_have(store, i, log->cold_lsn))
			continue;
		job->last_lsn = segment->last_lsn;
		/* a segment without an open message has none of this queue */
		if (segment->live_refs > 0 || segment->merging)
			job->segments[job->segment_count++] = segment_place_of(segment);
	}
}

/* A read through footers; false when no sealed segment may have more. */
static bool
read_sealed(struct store *store, struct queue_log *log, uint32_t count, uint64_t octets)
{
	struct read_job *job = job_new(store, log, count, octets);

	list_segments(store, log, job);
	if (job->segment_count == 0) {
		read_job_free(job);
		return false;
	}
	/* what was settled before a restart lies between what is open */
	qseq_set_copy_range(&job->settled, &log->settled, log->cold_from, QSEQ_MAX);
	if (log->unreadable != NULL)
		qseq_set_copy_range(&job->unreadable, log->unreadable, log->cold_from, QSEQ_MAX);
	log->reading = true;
	worker_send(&store->helper_thread, &job->mail);
	return true;
}

void
read_job_add_tail(struct read_job *job, const struct tail_entry *entry, uint64_t qseq)
{
	if (job->item_count == job->item_room) {
		job->item_room = job->item_room == 0 ? 64 : 2 * job->item_room;
		job->items = xrealloc(job->items, job->item_room * sizeof(*job->items));
	}
	job->items[job->item_count++] = (struct read_item){
		qseq, (uint64_t)entry->offset * RECORD_ALIGNMENT, entry->share, false};
}

bool
cold_is_wanted(const struct queue_log *log, uint64_t qseq)
{
	return !qseq_set_has(&log->settled, qseq) &&
	       (log->unreadable == NULL || !qseq_set_has(log->unreadable, qseq));
}

/* Puts what is written of one tail into the job; whether that is all of the tail. */
static bool
list_tail(const struct segment *segment, struct queue_log *log, struct tail_place *place,
	  struct read_job *job)
{
	uint64_t octets = 0;
	uint64_t qseq = place->first_qseq;

	for (uint32_t index = place->cursor; index != 0;) {
		const struct tail_entry *entry = tail_entry(segment->tail, index - 1);

		qseq = tail_qseq(entry, place->first_qseq);
		if ((uint64_t)entry->offset * RECORD_ALIGNMENT >= segment->written ||
		    job->item_count == job->count_max ||
		    (job->item_count > 0 && octets + entry->share > job->octets_max)) {
			place->cursor = index;
			return false;
		}
		if (qseq >= log->cold_from && cold_is_wanted(log, qseq)) {
			octets += entry->share;
			read_job_add_tail(job, entry, qseq);
			job->next = qseq + 1;
		}
		index = entry->next;
	}
	place->cursor = 0;
	return true;
}

/* A read through the tail of this segment; whether there was anything to read. */
static bool
read_tail(struct store *store, struct queue_log *log, const struct segment *segment,
	  struct tail_place *place, uint32_t count, uint64_t octets, bool *complete)
{
	struct read_job *job = job_new(store, log, count, octets);

	job->tail_segment = segment->id;
	*complete = list_tail(segment, log, place, job);
	if (job->item_count == 0) {
		read_job_free(job);
		return false;
	}
	log->reading = true;
	worker_send(&store->helper_thread, &job->mail);
	return true;
}

static bool
read_tails(struct store *store, struct queue_log *log, uint32_t count, uint64_t octets)
{
	for (size_t i = 0; i < store->segment_count; i++) {
		const struct segment *segment = store->segments[i];
		struct tail_place *place;
		bool complete;

		if (segment->tail == NULL)
			continue;
		place = tail_place(log, segment->id);
		if (place == NULL)
			continue;
		if (read_tail(store, log, segment, place, count, octets, &complete))
			return true;
		if (!complete)
			return false;
	}
	return false;
}

/* Whether a message of the queue is still to come to a place where it can be read. */
static bool
is_on_its_way(const struct store *store, const struct queue_log *log)
{
	const struct batch *filling = store->filling;
	const struct segment *segment;

	for (size_t i = 0; i < countof(log->tails); i++)
		if (log->tails[i].cursor != 0 &&
		    (segment = segment_by_id(store, log->tails[i].segment_id)) != NULL &&
		    segment->tail != NULL)
			return true;
	for (uint32_t i = 0; i < filling->log_count; i++)
		if (filling->logs[i] == log)
			return true;
	return false;
}

/* All has been read and there should be more: records were damaged when an index was made. That is told as an
 * answer to a read, for who asks expects none before it comes back. */
static void
read_nothing(struct store *store, struct queue_log *log)
{
	struct read_job *job = job_new(store, log, 0, 0);

	job->lost = log->cold_count;
	job->lost_octets = log->cold_octets;
	log->reading = true;
	worker_send(&store->helper_thread, &job->mail);
}

void
store_read(struct store *store, struct queue_log *log, uint32_t count, uint64_t octets)
{
	assert_thread(THREAD_BROKER);
	if (log->reading || log->cold_count == 0 || store->closing)
		return;
	log->want_count = count;
	log->want_octets = octets;
	log->read_ticket++;
	if (read_sealed(store, log, count, octets) || read_tails(store, log, count, octets))
		return;
	if (!is_on_its_way(store, log))
		read_nothing(store, log);
	else if (!list_linked(&log->wanting))
		list_append(&store->wanting, &log->wanting);
}

void
cold_retry(struct store *store)
{
	/* a read that must wait on goes to the end again */
	for (size_t n = store->wanting.count; n > 0; n--) {
		struct queue_log *log = list_first(&store->wanting, struct queue_log, wanting);

		list_remove(&store->wanting, &log->wanting);
		store_read(store, log, log->want_count, log->want_octets);
	}
	pick_retry(store);
}

/* ---- what is settled unread ---- */

static void
locate_arrived(struct store *store, struct mail *mail)
{
	struct locate_job *job = container_of(mail, struct locate_job, mail);

	store->locating--;
	for (uint32_t i = 0; i < job->count_count; i++)
		segment_release(segment_by_id(store, job->counts[i].id), job->counts[i].refs,
				job->counts[i].octets);
	if (job->error != 0)
		store_fail(store, job->error, "the log could not be read");
	qseq_set_fini(&job->before);
	xfree(job->ranges);
	xfree(job->segments);
	xfree(job->counts);
	xfree(job);
	reclaim(store);
	merge_consider(store);
}

void
cold_locate(struct store *store, uint64_t queue_id, struct settled_range *ranges, uint32_t count,
	    struct qseq_set *before)
{
	struct locate_job *job = xcalloc(1, sizeof(*job));

	*job = (struct locate_job){
		.mail = {.run = run_locate, .arrive = locate_arrived},
		.reader = store->reader,
		.queue_id = queue_id,
		.ranges = ranges,
		.range_count = count,
		.before = *before,
		.segments = xmalloc((store->segment_count + 1) * sizeof(*job->segments)),
	};
	for (size_t i = 0; i < store->segment_count; i++)
		if (store->segments[i]->tail == NULL &&
		    (store->segments[i]->live_refs > 0 || store->segments[i]->merging))
			job->segments[job->segment_count++] = segment_place_of(store->segments[i]);
	store->locating++;
	worker_send(&store->helper_thread, &job->mail);
}

/* Takes the cold messages of a queue off a segment without a footer. */
static void
release_tail(struct segment *segment, struct queue_log *log)
{
	const struct tail_place *place = tail_place(log, segment->id);

	if (place == NULL)
		return;
	for (uint32_t index = place->first; index != 0;) {
		const struct tail_entry *entry = tail_entry(segment->tail, index - 1);
		uint64_t qseq = tail_qseq(entry, place->first_qseq);

		if (qseq >= log->cold_from && !qseq_set_has(&log->settled, qseq))
			segment_release(segment, 1, entry->share);
		index = entry->next;
	}
}

/* Takes those off the batch that is filling, which no tail knows yet. */
static void
release_batch(struct batch *batch, const struct queue_log *log)
{
	uint32_t at_log = 0;

	for (size_t at = BATCH_SIZE; at < batch->size;) {
		const uint8_t *p = batch->p + at;
		uint32_t size = le32_load(p + RECORD_AT_SIZE);
		uint32_t refs = p[RECORD_AT_TYPE] == RECORD_MESSAGE
					? le32_load(p + MESSAGE_AT_REF_COUNT)
					: 0;

		for (uint32_t i = 0; i < refs; i++) {
			uint64_t qseq = le64_load(p + MESSAGE_AT_REFS + i * MESSAGE_REF_SIZE + 8);

			if (batch->logs[at_log++] != log || qseq < log->cold_from ||
			    qseq_set_has(&log->settled, qseq))
				continue;
			batch->live -= store_share(size, refs);
			batch->live_refs--;
		}
		at += size;
	}
}

/* Takes the whole cold part off its segments. */
static void
release_cold(struct store *store, struct queue_log *log)
{
	struct settled_range range = {log->cold_from, QSEQ_MAX};
	struct qseq_set before;

	for (size_t i = 0; i < store->segment_count; i++)
		if (store->segments[i]->tail != NULL)
			release_tail(store->segments[i], log);
	release_batch(store->filling, log);
	qseq_set_copy_range(&before, &log->settled, log->cold_from, QSEQ_MAX);
	cold_locate(store, log->id, xmemdup(&range, sizeof(range)), 1, &before);
}

static void
forget_cold(struct store *store, struct queue_log *log)
{
	log->cold_count = 0;
	forget_reads(store, log);
	pick_forget(store, log);
}

void
cold_drop(struct store *store, struct queue_log *log)
{
	if (log->cold_count > 0)
		release_cold(store, log);
	forget_cold(store, log);
}

uint64_t
store_purge_cold(struct store *store, struct queue_log *log)
{
	struct purge_record purge = {.queue_id = log->id, .first = log->cold_from};

	assert_thread(THREAD_BROKER);
	assert(log->cold_count > 0);
	/* marks that are taken into the counts already must be logged before the counts are */
	batch_take_marks(store);
	release_cold(store, log);
	log->count -= log->cold_count;
	log->octets -= log->cold_octets;
	purge.last = log->next_qseq - 1;
	purge.open_count = log->count;
	purge.open_octets = log->octets;
	qseq_set_add(&log->settled, purge.first, purge.last - purge.first + 1);
	queue_log_forget_returns(log, purge.first, purge.last - purge.first + 1);
	forget_cold(store, log);
	return append_purge(store, &purge);
}
