/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A durable queue longer than its window: what is behind the window stays on disk and has no entry
 * (store: the cold part). Consumers that come near the end of the window have the next messages read, a
 * window ahead. A message without a record that comes meanwhile waits as a late entry until those before
 * it are back.
 *
 * Invariants: numbers of requeued entries, those delivered, the window, and cold ones rise in this order;
 * late ones are above the window. QUEUE_COLD is set while there is a cold message or a late entry.
 */
#include "broker/durable.h"
#include "internal.h"
#include "store/store.h"

/* Entries without a record, in order. */
struct late {
	uint32_t first; // index of the oldest
	uint32_t end;
	uint32_t room;
	struct entry entries[];
};

/* How many queues are looked at in search of one that can do without its window. */
#define EVICT_TRIES 8
/* What was read is spared for so long: else each message that is taken could cost a whole read, while
 * others publish. Where no consumer is there to take it, only up to so many times the cache's size. */
#define SPARE_MS 1000
#define SPARE_CACHES 4
/* What part of a window is read for basic.get alone. */
#define GET_PART 16

/* ---- late entries ---- */

static uint32_t
late_count(const struct queue *q)
{
	return q->late == NULL ? 0 : q->late->end - q->late->first;
}

static size_t
late_size(uint32_t room)
{
	return sizeof(struct late) + room * sizeof(struct entry);
}

static void
late_free(struct queue *q)
{
	if (q->late != NULL)
		slab_free(q->late, late_size(q->late->room));
	q->late = NULL;
}

/* Room for one more in front and behind. */
static void
late_grow(struct queue *q)
{
	uint32_t count = late_count(q);
	uint32_t room = 16 + 2 * count;
	struct late *late = slab_alloc(late_size(room));

	*late = (struct late){.first = 1, .end = 1 + count, .room = room};
	if (count != 0)
		memcpy(&late->entries[1], &q->late->entries[q->late->first],
		       count * sizeof(struct entry));
	late_free(q);
	q->late = late;
}

void
cold_push_late(struct queue *q, struct entry entry)
{
	if (q->late == NULL || q->late->end == q->late->room)
		late_grow(q);
	q->late->entries[q->late->end++] = entry;
	q->flags |= QUEUE_COLD;
}

static void
late_push_front(struct queue *q, struct entry entry)
{
	if (q->late == NULL || q->late->first == 0)
		late_grow(q);
	q->late->entries[--q->late->first] = entry;
}

/* Those below a number are next now. */
static void
late_release(struct queue *q, uint64_t below)
{
	while (late_count(q) > 0 && entry_qseq(&q->late->entries[q->late->first]) < below)
		window_push(q, q->late->entries[q->late->first++]);
	if (late_count(q) == 0)
		late_free(q);
}

/* ---- what stays on disk ---- */

uint64_t
queue_message_count(const struct queue *q)
{
	return q->ready_count + late_count(q) + (q->log == NULL ? 0 : q->log->cold_count);
}

bool
queue_must_read(const struct queue *q)
{
	return q->ready_count == 0 && q->log != NULL && q->log->cold_count > 0;
}

bool
cold_takes(const struct queue *q)
{
	const struct broker *broker = q->vhost->broker;

	if (q->log->cold_count > 0 || q->ready_count >= QUEUE_WINDOW_COUNT ||
	    q->ready_bytes >= QUEUE_WINDOW_OCTETS)
		return true;
	return list_empty(&q->takers) && broker->resident_octets > broker->options.cache_size;
}

void
cold_push(struct queue *q, uint64_t qseq, uint32_t body_size)
{
	store_cold_push(q->log, qseq, body_size);
	q->flags |= QUEUE_COLD;
}

/* Gives up the window: what has a record stays on disk. The queue has nothing more to give then. */
static void
evict(struct queue *q)
{
	struct entry entries[64];
	uint64_t first = 0;
	uint64_t count = 0;
	uint64_t octets = 0;
	uint32_t n;

	/* from the back, so that entries without a record come in order before those that are late */
	while ((n = window_pop_back(q, entries, countof(entries))) > 0) {
		for (uint32_t i = 0; i < n; i++) {
			const struct message *m = entries[i].message;

			if (m->stored == 0) {
				late_push_front(q, entries[i]);
				continue;
			}
			first = entry_qseq(&entries[i]);
			count++;
			octets += m->body_size;
			message_unref(entries[i].message);
		}
	}
	if (count > 0)
		store_cold_return(q->log, first, count, octets);
	/* nothing cold is before these */
	late_release(q, q->log->cold_count > 0 ? q->log->cold_from : QSEQ_MAX + 1);
	if (q->log->cold_count > 0)
		q->flags |= QUEUE_COLD;
	if (list_linked(&q->resident))
		list_remove(&q->vhost->broker->resident, &q->resident);
}

static bool
is_spared(const struct queue *q)
{
	const struct broker *broker = q->vhost->broker;

	if (q->log == NULL || q->log->reading || !list_empty(&q->takers))
		return true;
	if (q->read_ms == 0 || broker->now.monotonic_ms - q->read_ms >= SPARE_MS)
		return false;
	return !list_empty(&q->consumers) ||
	       broker->resident_octets / SPARE_CACHES <= broker->options.cache_size;
}

void
cold_evict(struct broker *broker)
{
	for (int i = 0; i < EVICT_TRIES && broker->resident_octets > broker->options.cache_size;
	     i++) {
		struct queue *q = list_first(&broker->resident, struct queue, resident);

		if (q == NULL)
			return;
		list_remove(&broker->resident, &q->resident);
		list_append(&broker->resident, &q->resident);
		if (!is_spared(q))
			evict(q);
	}
}

/* ---- what comes back ---- */

void
queue_refill(struct queue *q)
{
	uint64_t octets = QUEUE_WINDOW_OCTETS - min_u64(q->ready_bytes, QUEUE_WINDOW_OCTETS);

	if (q->log == NULL || q->log->cold_count == 0 || q->ready_count > QUEUE_WINDOW_COUNT / 2 ||
	    octets < QUEUE_WINDOW_OCTETS / 2)
		return;
	if (list_empty(&q->takers))
		octets /= GET_PART;
	store_read(q->vhost->broker->store, q->log, (uint32_t)(QUEUE_WINDOW_COUNT - q->ready_count),
		   octets);
}

void
broker_read_message(struct broker *broker, struct queue_log *log, uint64_t qseq,
		    const struct stored_message *stored, bool redelivered)
{
	struct queue *q = log->owner;
	struct message *message = message_new_stored(&stored->record);

	(void)broker;
	assert(q != NULL);
	message->stored = stored->lsn << 16 | min_u64(stored->record.ref_count, UINT16_MAX);
	late_release(q, qseq);
	window_push(q, (struct entry){qseq << 16 | (redelivered ? ENTRY_REDELIVERED : 0), message});
}

void
broker_read_end(struct broker *broker, struct queue_log *log)
{
	struct queue *q = log->owner;

	assert(q != NULL);
	q->read_ms = broker->now.monotonic_ms;
	if (log->cold_count == 0) {
		late_release(q, QSEQ_MAX + 1);
		q->flags &= ~(unsigned)QUEUE_COLD;
	}
	/* nothing of it could be read: whoever waits waits for the next ones */
	if (queue_must_read(q))
		queue_refill(q);
	queue_touch(q);
}

/* ---- the end ---- */

void
cold_clear(struct queue *q, enum ack_reason reason)
{
	struct broker *broker = q->vhost->broker;

	while (late_count(q) > 0) {
		struct entry entry = q->late->entries[q->late->first++];

		queue_settle(q, &entry, reason);
		message_unref(entry.message);
	}
	late_free(q);
	if (q->log != NULL && q->log->cold_count > 0)
		broker->effect_lsn = store_purge_cold(broker->store, q->log);
	q->flags &= ~(unsigned)QUEUE_COLD;
}

void
cold_check(const struct queue *q)
{
	uint64_t last = 0;

	assert(((q->flags & QUEUE_COLD) != 0) == (queue_message_count(q) > q->ready_count));
	for (uint32_t i = 0; i < late_count(q); i++) {
		assert(entry_qseq(&q->late->entries[q->late->first + i]) > last);
		last = entry_qseq(&q->late->entries[q->late->first + i]);
	}
}
