/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queues in the store: which of their messages are settled, and the marks that the present batch is
 * to write. Marks of one queue gather as ranges and become one record with those of all queues when the
 * batch is handed over.
 */
#include "cold.h"

#include "store/qseq_counts.h"

struct queue_log *
queue_log_find(const struct store *store, uint64_t id)
{
	struct map_node *node = map_find(&store->queues, bytes_of(&id, sizeof(id)));

	return node == NULL ? NULL : container_of(node, struct queue_log, by_id);
}

struct queue_log *
queue_log_new(struct store *store, uint64_t id)
{
	struct queue_log *log = slab_alloc(sizeof(*log));

	*log = (struct queue_log){.id = id, .next_qseq = 1};
	qseq_set_init(&log->settled);
	map_insert(&store->queues, &log->by_id, bytes_of(&log->id, sizeof(log->id)));
	store->next_queue_id = max_u64(store->next_queue_id, id + 1);
	return log;
}

void
queue_log_forget_ranges(struct store *store, struct queue_log *log)
{
	if (list_linked(&log->acked))
		list_remove(&store->acked, &log->acked);
	log->range_count = 0;
	/* 100,000 queues must not each keep what one burst needed */
	if (log->range_room > 4) {
		xfree(log->ranges);
		log->ranges = NULL;
		log->range_room = 0;
	}
}

void
queue_log_free(struct store *store, struct queue_log *log)
{
	queue_log_forget_ranges(store, log);
	if (list_linked(&log->wanting))
		list_remove(&store->wanting, &log->wanting);
	pick_forget(store, log);
	batch_forget_queue(store->filling, log);
	map_remove(&store->queues, &log->by_id);
	qseq_set_fini(&log->settled);
	if (log->unreadable != NULL)
		qseq_set_fini(log->unreadable);
	xfree(log->unreadable);
	queue_log_forget_returns(log, 1, QSEQ_MAX);
	xfree(log->ranges);
	slab_free(log, sizeof(*log));
}

void
queue_log_note_range(struct queue_log *log, uint64_t first, uint32_t count)
{
	if (log->range_count == log->range_room) {
		log->range_room = log->range_room == 0 ? 4 : 2 * log->range_room;
		log->ranges = xrealloc(log->ranges, log->range_room * sizeof(*log->ranges));
	}
	log->ranges[log->range_count++] = (struct ack_range){.first = first, .count = count};
}

static void
add_range(struct store *store, struct queue_log *log, uint64_t qseq, uint32_t body_size,
	  enum ack_reason reason)
{
	queue_log_note_range(log, qseq, 1);
	log->ranges[log->range_count - 1].reason = reason;
	log->ranges[log->range_count - 1].octets = body_size;
	if (!list_linked(&log->acked))
		list_append(&store->acked, &log->acked);
}

/* ---- how often messages came back ---- */

void
queue_log_set_returns(struct queue_log *log, uint64_t qseq, uint32_t count)
{
	if (log->returns == NULL)
		log->returns = xcalloc(1, sizeof(*log->returns));
	qseq_counts_set(log->returns, qseq, count);
}

void
queue_log_forget_returns(struct queue_log *log, uint64_t first, uint64_t count)
{
	if (likely(log->returns == NULL))
		return;
	qseq_counts_remove(log->returns, first, count);
	if (log->returns->used > 0)
		return;
	xfree(log->returns);
	log->returns = NULL;
}

uint32_t
store_returns(const struct queue_log *log, uint64_t qseq)
{
	return log->returns == NULL ? 0 : qseq_counts_get(log->returns, qseq);
}

/* ---- marks ---- */

/* The record is partly, or wholly, garbage now. */
static void
count_dead(struct store *store, uint64_t lsn, uint64_t share)
{
	struct batch *batch = store->filling;
	struct segment *segment;

	if (lsn >= batch->first_lsn) {
		assert(batch->live_refs > 0);
		batch->live_refs--;
		batch->live = batch->live_refs == 0 ? 0 : batch->live - min_u64(batch->live, share);
		return;
	}
	segment = segment_of(store, lsn);
	assert(segment != NULL);
	segment_release(segment, 1, share);
}

void
store_release(struct store *store, uint64_t lsn, uint64_t share)
{
	assert_thread(THREAD_BROKER);
	assert(store->unreleased > 0);
	store->unreleased--;
	count_dead(store, lsn, share);
}

uint64_t
store_ack(struct store *store, struct queue_log *log, uint64_t qseq,
	  const struct stored_place *place, enum ack_reason reason)
{
	struct ack_range *last = log->range_count == 0 ? NULL : &log->ranges[log->range_count - 1];

	assert_thread(THREAD_BROKER);
	assert(place->lsn != 0);
	assert(place->lsn < store->next_lsn);
	assert(log->count > 0);
	if (likely(last != NULL && last->first + last->count == qseq && last->reason == reason &&
		   last->count < ACK_RANGE_MAX)) {
		last->count++;
		last->octets += place->body_size;
	} else {
		add_range(store, log, qseq, place->body_size, reason);
	}
	qseq_set_add(&log->settled, qseq, 1);
	queue_log_forget_returns(log, qseq, 1);
	log->count--;
	log->octets -= place->body_size;
	count_dead(store, place->lsn, place->share);
	return store->next_lsn;
}
