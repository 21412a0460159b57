/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A durable queue and its log in the store: a persistent message gets one record for all durable queues
 * that it reaches, each settled entry a mark. A message without a record (a transient one) has a number
 * in the queue all the same, which only counts as settled in memory.
 */
#include "broker/durable.h"
#include "internal.h"
#include "keys.h"
#include "store/store.h"

/* Records above `stable` for which there is room without looking. */
#define UNSETTLED_ROOM 16384

/* ---- what is settled before it is stable ---- */

/* Room for the records up to this one. Those whose places move keep what is known of them. */
static void
unsettled_grow(struct broker *broker, uint64_t lsn)
{
	uint64_t room = max_u64(UNSETTLED_ROOM, broker->unsettled_room);
	uint32_t *counts;

	while (lsn - broker->stable > room)
		room *= 2;
	counts = xmalloc(room * sizeof(*counts));
	for (uint64_t i = 1; i <= broker->unsettled_room; i++) {
		uint64_t old = broker->stable + i;

		counts[old & (room - 1)] = broker->unsettled[old & (broker->unsettled_room - 1)];
	}
	xfree(broker->unsettled);
	broker->unsettled = counts;
	broker->unsettled_room = room;
}

static void
unsettled_add(struct broker *broker, uint64_t lsn, uint32_t refs)
{
	if (unlikely(lsn - broker->stable > broker->unsettled_room))
		unsettled_grow(broker, lsn);
	broker->unsettled_last = lsn;
	broker->unsettled[lsn & (broker->unsettled_room - 1)] = refs;
}

static void
unsettled_take(struct broker *broker, uint64_t lsn)
{
	uint32_t *count;

	if (lsn <= broker->stable)
		return;
	count = &broker->unsettled[lsn & (broker->unsettled_room - 1)];
	assert(*count > 0);
	--*count;
}

void
unsettled_trim(struct broker *broker)
{
	if (broker->unsettled_room <= UNSETTLED_ROOM || broker->stable < broker->unsettled_last)
		return;
	xfree(broker->unsettled);
	broker->unsettled = NULL;
	broker->unsettled_room = 0;
}

/* ---- messages and their records ---- */

static uint32_t
count_durable(const struct route *route)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < route->count; i++)
		count += route->queues[i]->log != NULL;
	return count;
}

/* Appends the keys that the message brings. The record of a key is not settled, so who waits for it, as duplicates do,
 * waits until it is stable. A message whose key counts only while it is queued may be confirmed sooner. */
static uint64_t
store_keys(struct broker *broker, const struct route *route, uint64_t lsn)
{
	struct stored_keys stored = keys_store(broker->store, route);

	if (stored.lsn == 0)
		return lsn;
	unsettled_add(broker, stored.lsn, 1);
	broker->keys_lsn = stored.lsn;
	broker->effect_lsn = stored.lsn;
	return stored.outlast ? stored.lsn : lsn;
}

/* due_ms: when it is ready; then the route is a waiting room alone, where nothing expires. 0: it is. */
static uint64_t
append(struct broker *broker, const struct route *route, struct message *message, uint64_t due_ms)
{
	struct message_record record = {
		.time_ms = message->time_ms,
		.expiry_ms = (message->flags & MESSAGE_HAS_EXPIRATION) && due_ms == 0
				     ? message_deadline(message)
				     : 0,
		.ref_count = count_durable(route),
		.time_count = due_ms != 0,
		.flags = (message->flags & MESSAGE_HAS_CC ? MESSAGE_CC : 0) |
			 (message->flags & MESSAGE_HAS_DEATHS ? MESSAGE_DEATHS : 0),
		.exchange = message_exchange(message),
		.key = message_key(message),
		.properties = message_properties(message),
		.body = message_body(message),
		.extension = message_extension(message),
	};
	uint64_t lsn;
	uint8_t *p;

	if (record.ref_count == 0)
		return 0;
	lsn = store_append_message(broker->store, &record, &p);
	for (uint32_t i = 0; i < route->count; i++) {
		struct queue *q = route->queues[i];

		if (q->log == NULL)
			continue;
		store_add_ref(broker->store, q->log, p, q->next_qseq, message->body_size, due_ms);
		p += MESSAGE_REF_SIZE;
	}
	message->stored = lsn << 16 | min_u64(record.ref_count, UINT16_MAX);
	unsettled_add(broker, lsn, record.ref_count);
	broker->effect_lsn = lsn;
	if (unlikely(route->mark_count > 0))
		lsn = store_keys(broker, route, lsn);
	return lsn;
}

uint64_t
queue_store(struct broker *broker, const struct route *route, struct message *message)
{
	return append(broker, route, message, 0);
}

/* Octets of the message's record for so many queues. */
static uint64_t
record_octets(const struct message *m, uint32_t refs)
{
	size_t more = m->body_size;

	if (unlikely(m->flags & MESSAGE_HAS_EXTENSION))
		more += 2 + message_extension(m).n;
	return message_record_size(refs, m->exchange_size, m->key_size, message_properties(m).n,
				   more);
}

/* What one reference counts of the message's record. */
static uint64_t
share(const struct message *m)
{
	uint32_t refs = (uint16_t)m->stored;

	return store_share(record_octets(m, refs), refs);
}

uint64_t
queue_store_waiting(struct broker *broker, const struct route *route, struct message *message,
		    uint64_t due_ms, struct stored_place *place)
{
	uint64_t lsn = append(broker, route, message, due_ms);

	assert(route->count == 1);
	assert(due_ms > 0);
	*place = (struct stored_place){
		.lsn = message_lsn(message),
		.share = store_share(record_octets(message, 1) + sizeof(due_ms), 1),
		.body_size = message->body_size,
	};
	return lsn;
}

void
queue_settle_cold(struct queue *q, uint64_t qseq, const struct stored_place *place,
		  enum ack_reason reason)
{
	struct broker *broker = q->vhost->broker;

	if (broker->store == NULL)
		return; // the broker ends, and the store has everything
	broker->effect_lsn = store_ack_cold(broker->store, q->log, qseq, place, reason);
	if (queue_message_count(q) == q->ready_count)
		q->flags &= ~(unsigned)QUEUE_COLD;
}

void
queue_settle_stored(struct queue *q, const struct entry *entry, enum ack_reason reason)
{
	struct broker *broker = q->vhost->broker;
	const struct message *m = entry->message;

	if (q->flags & QUEUE_HOLDS_KEYS)
		keys_release(q, entry);
	if (!(q->flags & QUEUE_STORED))
		return;
	if (broker->store == NULL)
		return; // the broker ends, and the store has everything
	if (!message_is_stored(m)) {
		if (q->log != NULL)
			qseq_set_add(&q->log->settled, entry_qseq(entry), 1);
		return;
	}
	/* what went on is as safe as its own record, which is behind the message's */
	if (reason != ACK_DEAD_LETTERED && reason != ACK_MOVED)
		unsettled_take(broker, message_lsn(m));
	if (q->log == NULL)
		store_release(broker->store, message_lsn(m), share(m));
	else
		broker->effect_lsn = store_ack(broker->store, q->log, entry_qseq(entry),
					       &(struct stored_place){.lsn = message_lsn(m),
								      .share = share(m),
								      .body_size = m->body_size},
					       reason);
}

void
queue_note_return(struct queue *q, const struct entry *entry)
{
	struct broker *broker = q->vhost->broker;

	if (q->log != NULL && message_is_stored(entry->message))
		broker->effect_lsn = store_note_return(broker->store, q->log, entry_qseq(entry),
						       entry_returns(entry));
}

void
queue_open_gate_of(struct queue *level, struct queue *q)
{
	struct broker *broker = q->vhost->broker;

	if (level->log == NULL || level->log->delivered)
		return;
	q->gate_lsn = store_mark_delivered(broker->store, level->log);
	if (!list_linked(&q->gated))
		list_append(&broker->gated, &q->gated);
}

static void
open_gate_of_level(void *context, struct queue *level)
{
	queue_open_gate_of(level, context);
}

void
queue_open_gate(struct queue *q)
{
	if (q->log == NULL || q->log->delivered)
		return;
	queue_open_gate_of(q, q);
	if (q->flags & QUEUE_PRIORITIES)
		levels_each(q, open_gate_of_level, q);
}

bool
queue_may_deliver(struct queue *q)
{
	queue_open_gate(q);
	return q->gate_lsn <= q->vhost->broker->stable;
}

bool
broker_store_full(struct broker *broker)
{
	return broker->store != NULL && store_is_full(broker->store, broker->now);
}

bool
broker_store_behind(struct broker *broker)
{
	return broker->store != NULL && store_is_behind(broker->store, broker->now);
}

uint64_t
broker_unit_max(const struct broker *broker)
{
	return broker->store == NULL ? UINT64_MAX : store_unit_max(broker->store);
}

uint64_t
broker_unit_share(const struct route *route, const struct message *message)
{
	uint32_t refs = count_durable(route);
	uint32_t rooms = 0;

	if (refs == 0 || !(message->flags & MESSAGE_PERSISTENT))
		return 0;
	for (uint32_t i = 0; i < route->count; i++)
		rooms += (route->queues[i]->flags & QUEUE_WAITING) != 0;
	/* each waiting room has a record of its own */
	return record_octets(message, refs) + rooms * record_octets(message, 1) +
	       keys_octets(route);
}
