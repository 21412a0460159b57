/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is appended to the log: each record goes into the batch that is filling, in the order of its LSN.
 * Marks wait in their queues and join when the batch is handed over (close_batch).
 */
#include "internal.h"

/* Marks of more queues than this many octets hold go into a further record. */
#define ACK_RECORD_MAX (1024 * 1024)
/* A heap of more items is given back. */
#define TIMED_ROOM 4096

struct batch *
batch_new(void)
{
	struct batch *batch = xcalloc(1, sizeof(*batch));

	batch->size = BATCH_SIZE;
	return batch;
}

void
batch_free(struct batch *batch)
{
	if (batch == NULL)
		return;
	xfree(batch->p);
	xfree(batch->logs);
	timed_heap_fini(&batch->timed);
	xfree(batch);
}

void
batch_reset(struct batch *batch, size_t keep)
{
	if (batch->room > keep) {
		xfree(batch->p);
		batch->p = NULL;
		batch->room = 0;
	}
	batch->size = BATCH_SIZE;
	batch->count = 0;
	batch->live = 0;
	batch->live_refs = 0;
	batch->log_count = 0;
	assert(batch->timed.count == 0);
	if (batch->timed.room > TIMED_ROOM)
		timed_heap_fini(&batch->timed);
	batch->opened_ms = 0;
	batch->begins = false;
	batch->error = 0;
}

uint8_t *
batch_reserve(struct batch *batch, size_t n)
{
	if (unlikely(batch->size + n > batch->room)) {
		size_t room = batch->room == 0 ? 65536 : 2 * batch->room;

		while (room < batch->size + n)
			room *= 2;
		batch->p = xrealloc(batch->p, room);
		batch->room = room;
	}
	return batch->p + batch->size;
}

/* A place for the next record, size octets. */
static uint8_t *
next_record(struct store *store, size_t size, uint64_t *lsn)
{
	struct batch *batch = store->filling;
	uint8_t *p = batch_reserve(batch, size);

	assert_thread(THREAD_BROKER);
	assert(size % RECORD_ALIGNMENT == 0);
	if (batch->count++ == 0)
		batch->first_lsn = store->next_lsn;
	batch->size += size;
	*lsn = store->next_lsn++;
	return p;
}

uint64_t
store_append_message(struct store *store, const struct message_record *message, uint8_t **refs)
{
	struct batch *batch = store->filling;
	uint64_t size = message_record_octets(message);
	uint64_t lsn;
	uint8_t *p;

	assert(message->ref_count > 0);
	assert(size <= UINT32_MAX);
	p = next_record(store, size, &lsn);
	message_record_encode(p, (uint32_t)size, lsn, message);
	batch->live += store_share(size, message->ref_count) * message->ref_count;
	batch->live_refs += message->ref_count;
	batch->record_at = (size_t)(p - batch->p);
	batch->due_at =
		batch->record_at + MESSAGE_AT_REFS + (size_t)message->ref_count * MESSAGE_REF_SIZE;
	batch->expiry_ms = message->expiry_ms;
	*refs = p + MESSAGE_AT_REFS;
	return lsn;
}

/* The reference has a time; due_ms 0: that of its message. */
static NEVER_INLINE void
add_time(struct store *store, const struct queue_log *log, uint64_t qseq, uint32_t body_size,
	 uint64_t due_ms)
{
	struct batch *batch = store->filling;
	const uint8_t *record = batch->p + batch->record_at;
	struct timed timed = {
		.time_ms = due_ms != 0 ? due_ms : batch->expiry_ms,
		.queue_id = log->id,
		.qseq = qseq,
		.lsn = le64_load(record + RECORD_AT_LSN),
		.share = (uint32_t)store_share(le32_load(record + RECORD_AT_SIZE),
					       le32_load(record + MESSAGE_AT_REF_COUNT)),
		.body_size = body_size,
	};

	if (due_ms != 0) {
		le64_store(batch->p + batch->due_at, due_ms);
		batch->due_at += 8;
	}
	timed_add(store, &timed);
}

void
store_add_ref(struct store *store, struct queue_log *log, uint8_t *ref, uint64_t qseq,
	      uint32_t body_size, uint64_t due_ms)
{
	struct batch *batch = store->filling;
	struct message_ref encoded = {
		.queue_id = log->id, .qseq = qseq, .flags = due_ms != 0 ? REF_DUE : 0};

	message_ref_encode(ref, &encoded);
	if (due_ms != 0 || batch->expiry_ms != 0)
		add_time(store, log, qseq, body_size, due_ms);
	if (unlikely(batch->log_count == batch->log_room)) {
		batch->log_room = batch->log_room == 0 ? 256 : 2 * batch->log_room;
		batch->logs = xrealloc(batch->logs, batch->log_room * sizeof(struct queue_log *));
	}
	batch->logs[batch->log_count++] = log;
	log->next_qseq = qseq + 1;
	log->count++;
	log->octets += body_size;
}

void
batch_forget_queue(struct batch *batch, const struct queue_log *log)
{
	for (uint32_t i = 0; i < batch->log_count; i++)
		if (batch->logs[i] == log)
			batch->logs[i] = NULL;
}

uint64_t
store_define(struct store *store, const struct definition *definition)
{
	size_t size = RECORD_HEADER_SIZE + definition_size(definition);
	uint64_t lsn;
	uint8_t *p = next_record(store, size, &lsn);

	record_header_encode(p, (uint32_t)size, lsn, RECORD_DEFINE, 0, 0);
	definition_encode(p + RECORD_HEADER_SIZE, definition);
	return lsn;
}

uint64_t
store_append_key(struct store *store, const struct key_record *key)
{
	uint64_t lsn;
	uint8_t *p = next_record(store, key_record_size(key), &lsn);

	key_record_encode(p, lsn, key);
	return lsn;
}

static uint64_t
append_pair(struct store *store, enum record_type type, uint64_t first, uint64_t second)
{
	uint64_t lsn;
	uint8_t *p = next_record(store, PAIR_RECORD_SIZE, &lsn);

	pair_record_encode(p, lsn, type, first, second);
	return lsn;
}

uint64_t
store_mark_delivered(struct store *store, struct queue_log *log)
{
	if (log->delivered)
		return 0;
	log->delivered = true;
	return append_pair(store, RECORD_QUEUE, log->id, QUEUE_STATE_DELIVERED);
}

uint64_t
append_purge(struct store *store, const struct purge_record *purge)
{
	uint64_t lsn;
	uint8_t *p = next_record(store, PURGE_RECORD_SIZE, &lsn);

	purge_record_encode(p, lsn, purge);
	return lsn;
}

uint64_t
store_note_return(struct store *store, struct queue_log *log, uint64_t qseq, uint32_t count)
{
	struct return_count noted = {.queue_id = log->id, .qseq = qseq, .count = count};
	uint64_t lsn;
	uint8_t *p = next_record(store, RETURNS_RECORD_SIZE(1), &lsn);

	returns_record_encode(p, lsn, &noted);
	queue_log_set_returns(log, qseq, count);
	return lsn;
}

uint64_t
append_epoch(struct store *store, uint64_t term, uint64_t last_lsn)
{
	return append_pair(store, RECORD_EPOCH, term, last_lsn);
}

/* ---- marks ---- */

/* How many ranges from `at` on share a reason: they are one group. */
static uint32_t
group_length(const struct queue_log *log, uint32_t at)
{
	uint32_t n = 1;

	while (at + n < log->range_count && log->ranges[at + n].reason == log->ranges[at].reason)
		n++;
	return n;
}

static size_t
marks_size(const struct queue_log *log)
{
	size_t size = 0;

	for (uint32_t at = 0; at < log->range_count; at += group_length(log, at))
		size += ACK_GROUP_SIZE + (size_t)group_length(log, at) * ACK_RANGE_SIZE;
	return size;
}

static uint64_t
group_octets(const struct queue_log *log, uint32_t at, uint32_t n)
{
	uint64_t octets = 0;

	for (; n > 0; n--)
		octets += log->ranges[at++].octets;
	return octets;
}

static uint8_t *
encode_marks(uint8_t *p, const struct queue_log *log)
{
	for (uint32_t at = 0; at < log->range_count;) {
		uint32_t n = group_length(log, at);

		ack_group_encode(p, log->id, log->ranges[at].reason, group_octets(log, at, n), n);
		p += ACK_GROUP_SIZE;
		for (; n > 0; n--, at++, p += ACK_RANGE_SIZE)
			ack_range_encode(p, log->ranges[at].first, log->ranges[at].count);
	}
	return p;
}

/* One record with the marks of the first queues of the list, as many as it may hold, one at least. */
static void
append_marks(struct store *store)
{
	struct queue_log *log;
	size_t size = RECORD_HEADER_SIZE;
	size_t queues = 0;
	uint64_t lsn;
	uint8_t *p;
	uint8_t *start;

	list_for_each (&store->acked, log, struct queue_log, acked) {
		size_t more = marks_size(log);

		if (queues > 0 && size + more > ACK_RECORD_MAX)
			break;
		size += more;
		queues++;
	}
	start = next_record(store, size, &lsn);
	record_header_encode(start, (uint32_t)size, lsn, RECORD_ACK, 0, 0);
	p = start + RECORD_HEADER_SIZE;
	for (; queues > 0; queues--) {
		log = list_first(&store->acked, struct queue_log, acked);
		p = encode_marks(p, log);
		queue_log_forget_ranges(store, log);
	}
	assert(p == start + size);
}

void
batch_take_marks(struct store *store)
{
	while (!list_empty(&store->acked))
		append_marks(store);
}
