/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A durable queue longer than its window: what is behind the window stays on disk and has no entry
 * (store: the cold part). Consumers that come near the end of the window have the next messages read, a
 * window ahead. A message without a record that comes meanwhile waits as a late entry until those before
 * it are back.
 *
 * What is at hand goes back to the disk, where it is: when more is at hand in all queues than the cache may
 * have, and when nobody has wanted anything of a queue without consumers for a while.
 *
 * Invariants: numbers of requeued entries, those delivered, the window, and cold ones rise in this order;
 * late ones are above the window. QUEUE_COLD is set while there is a cold message or a late entry.
 */
#include <stdlib.h>

#include "broker/durable.h"
#include "internal.h"
#include "store/store.h"

/* Entries without a record, in order. */
struct late {
	uint64_t octets; // of their bodies
	uint32_t first;	 // index of the oldest
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
/* A queue without consumers gives up what is at hand when nothing came of it for so long; so often, and so
 * many queues at once, are looked at. */
#define REST_MS 5000
#define REST_LOOK_MS 1000
#define REST_MORE_MS 50
#define REST_QUEUES 1000
/* What part of a window is read for basic.get alone, or for the next few to be dropped. */
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

/* Room for as many again, half of it in front. */
static void
late_grow(struct queue *q)
{
	uint32_t count = late_count(q);
	uint32_t room = 16 + 2 * count;
	uint32_t first = (room - count) / 2;
	struct late *late = slab_alloc(late_size(room));

	*late = (struct late){.octets = q->late == NULL ? 0 : q->late->octets,
			      .first = first,
			      .end = first + count,
			      .room = room};
	if (count != 0)
		memcpy(&late->entries[first], &q->late->entries[q->late->first],
		       count * sizeof(struct entry));
	late_free(q);
	q->late = late;
	page_note(q);
}

struct entry *
late_entries(const struct queue *q, uint32_t *count)
{
	*count = late_count(q);
	return *count == 0 ? NULL : &q->late->entries[q->late->first];
}

void
cold_push_late(struct queue *q, struct entry entry)
{
	if (q->late == NULL || q->late->end == q->late->room)
		late_grow(q);
	q->late->entries[q->late->end++] = entry;
	q->late->octets += entry.message->body_size;
	q->flags |= QUEUE_COLD;
}

static void
late_push_front(struct queue *q, struct entry entry)
{
	if (q->late == NULL || q->late->first == 0)
		late_grow(q);
	q->late->entries[--q->late->first] = entry;
	q->late->octets += entry.message->body_size;
}

/* Those below a number are next now. */
static void
late_release(struct queue *q, uint64_t below)
{
	while (late_count(q) > 0 && entry_qseq(&q->late->entries[q->late->first]) < below) {
		struct entry entry = q->late->entries[q->late->first++];

		q->late->octets -= entry.message->body_size;
		window_push(q, entry);
	}
	if (late_count(q) == 0)
		late_free(q);
}

uint32_t
late_take(struct queue *q, const uint64_t *qseqs, uint32_t n, struct entry *entries)
{
	uint32_t kept = q->late == NULL ? 0 : q->late->first;
	uint32_t taken = 0;
	uint32_t at = 0;

	for (uint32_t i = kept; q->late != NULL && i < q->late->end; i++) {
		struct entry entry = q->late->entries[i];

		while (at < n && qseqs[at] < entry_qseq(&entry))
			at++;
		if (at < n && qseqs[at] == entry_qseq(&entry)) {
			q->late->octets -= entry.message->body_size;
			entries[taken++] = entry;
		} else {
			q->late->entries[kept++] = entry;
		}
	}
	if (q->late != NULL)
		q->late->end = kept;
	if (late_count(q) == 0)
		late_free(q);
	if (own_message_count(q) == q->ready_count)
		q->flags &= ~(unsigned)QUEUE_COLD;
	return taken;
}

/* ---- what stays on disk ---- */

uint64_t
own_message_count(const struct queue *q)
{
	return q->ready_count + late_count(q) + (q->log == NULL ? 0 : q->log->cold_count);
}

uint64_t
queue_message_count(const struct queue *q)
{
	return own_message_count(q) +
	       (unlikely(q->flags & QUEUE_PRIORITIES) ? levels_sums(q).count : 0);
}

uint64_t
own_octets(const struct queue *q)
{
	return q->body_bytes + (q->late == NULL ? 0 : q->late->octets) +
	       (q->log == NULL ? 0 : q->log->cold_octets);
}

uint64_t
queue_octets(const struct queue *q)
{
	return own_octets(q) + (unlikely(q->flags & QUEUE_PRIORITIES) ? levels_sums(q).octets : 0);
}

bool
own_must_read(const struct queue *q)
{
	if (q->ready_count > 0)
		return (queue_oldest(q)->message->flags & MESSAGE_PAGED) != 0;
	return q->log != NULL && q->log->cold_count > 0;
}

bool
queue_has_more(const struct queue *q)
{
	if (unlikely(q->flags & QUEUE_PRIORITIES))
		return own_message_count(levels_top(q)) > 0;
	return q->log != NULL && q->log->cold_count > 0;
}

bool
queue_must_read(const struct queue *q)
{
	return own_must_read(unlikely(q->flags & QUEUE_PRIORITIES) ? levels_top(q) : q);
}

/* What its groups set aside has a bound of its own. */
static NEVER_INLINE bool
window_is_full(const struct queue *q)
{
	struct aside aside = groups_aside(q);

	return q->ready_count - aside.count >= QUEUE_WINDOW_COUNT ||
	       q->ready_bytes - aside.octets >= QUEUE_WINDOW_OCTETS;
}

bool
cold_takes(const struct queue *q)
{
	const struct broker *broker = q->vhost->broker;

	if (q->log->cold_count > 0)
		return true;
	if ((q->ready_count >= QUEUE_WINDOW_COUNT || q->ready_bytes >= QUEUE_WINDOW_OCTETS) &&
	    window_is_full(q))
		return true;
	return broker->resident_octets > broker->options.cache_size && list_empty(queue_takers(q));
}

void
cold_push(struct queue *q, uint64_t qseq, uint32_t body_size)
{
	store_cold_push(q->log, qseq, body_size);
	q->flags |= QUEUE_COLD;
}

/* Messages that go back to the disk. */
struct returned {
	struct queue *queue; // borrows: whose they are
	uint64_t first;	     // the lowest number
	uint64_t time_ms;    // when that one came
	uint64_t count;
	uint64_t octets; // of their bodies
};

/* Whether it has a record and went back. */
static bool
give_back(struct entry entry, struct returned *returned)
{
	if (!message_is_stored(entry.message))
		return false;
	if (entry_qseq(&entry) < returned->first) {
		returned->first = entry_qseq(&entry);
		returned->time_ms = entry.message->time_ms;
	}
	returned->count++;
	returned->octets += entry.message->body_size;
	/* the store does not tell of it again */
	if ((entry.message->flags & MESSAGE_HAS_EXPIRATION) &&
	    message_deadline(entry.message) <= returned->queue->vhost->broker->now.wall_ms)
		queue_let_die(returned->queue, entry_qseq(&entry),
			      &(struct stored_place){.lsn = message_lsn(entry.message),
						     .body_size = entry.message->body_size});
	message_unref(entry.message);
	return true;
}

/* The window, from the back, so that entries without a record come in order before those that are late. */
static void
give_back_window(struct queue *q, struct returned *returned)
{
	struct entry entries[64];
	uint32_t n;

	while ((n = window_pop_back(q, entries, countof(entries))) > 0)
		for (uint32_t i = 0; i < n; i++)
			if (!give_back(entries[i], returned))
				late_push_front(q, entries[i]);
}

static int
younger_first(const void *left, const void *right)
{
	const struct entry *a = left;
	const struct entry *b = right;

	return a->bits < b->bits ? 1 : -1;
}

/* The requeued ones, which come in no order. */
static void
give_back_requeued(struct queue *q, struct returned *returned)
{
	size_t size = q->requeued_count * sizeof(struct entry);
	struct entry *kept = slab_alloc(size);
	struct entry entry;
	size_t n = 0;

	while (window_pop_requeued(q, &entry))
		if (!give_back(entry, returned))
			kept[n++] = entry;
	qsort(kept, n, sizeof(*kept), younger_first);
	for (size_t i = 0; i < n; i++)
		late_push_front(q, kept[i]);
	slab_free(kept, size);
}

/* Gives up what is at hand: what has a record stays on disk. The queue has nothing more to give then, but
 * for what was requeued while others are unacked, as those may lie between. */
static void
evict(struct queue *q)
{
	struct returned returned = {.queue = q, .first = UINT64_MAX};

	groups_gather(q);
	give_back_window(q, &returned);
	if (q->unacked_count == 0)
		give_back_requeued(q, &returned);
	if (returned.count > 0)
		store_cold_return(q->log, returned.first, returned.count, returned.octets);
	if (returned.count > 0 && q->life != NULL)
		q->life->cold_time_ms = returned.time_ms;
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

	if (q->log == NULL || q->log->reading || !list_empty(queue_takers(q)))
		return true;
	if (q->read_ms == 0 || broker->now.monotonic_ms - q->read_ms >= SPARE_MS)
		return false;
	return !list_empty(queue_consumers(q)) ||
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

void
cold_watch(struct queue *q)
{
	struct broker *broker = q->vhost->broker;

	list_append(&broker->resident, &q->resident);
	q->resident_ms = broker->now.monotonic_ms;
	if (!deadline_is_set(&broker->rest))
		deadline_set(broker->deadlines, &broker->rest, q->resident_ms + REST_MS);
}

static bool
is_at_rest(const struct queue *q)
{
	uint64_t used_ms = max_u64(q->resident_ms, max_u64(q->read_ms, q->taken_ms));

	return q->log != NULL && !q->log->reading && list_empty(queue_consumers(q)) &&
	       q->vhost->broker->now.monotonic_ms - used_ms >= REST_MS;
}

void
cold_rest(struct deadline *deadline, uint64_t now_ms)
{
	struct broker *broker = container_of(deadline, struct broker, rest);
	size_t n = min_u64(broker->resident.count, REST_QUEUES);
	bool any = false;

	for (; n > 0; n--) {
		struct queue *q = list_first(&broker->resident, struct queue, resident);

		list_remove(&broker->resident, &q->resident);
		list_append(&broker->resident, &q->resident);
		if (is_at_rest(q)) {
			evict(q);
			any = true;
		}
	}
	if (!list_empty(&broker->resident))
		deadline_set(broker->deadlines, deadline,
			     now_ms + (any ? REST_MORE_MS : REST_LOOK_MS));
}

/* ---- what comes back ---- */

/* part: what of a window is read. */
static void
refill(struct queue *q, uint64_t part)
{
	struct aside aside = groups_aside(q);
	uint64_t count = q->ready_count - aside.count;
	uint64_t octets =
		QUEUE_WINDOW_OCTETS - min_u64(q->ready_bytes - aside.octets, QUEUE_WINDOW_OCTETS);

	if (q->flags & QUEUE_PAGED)
		page_refill(q);
	if (q->log == NULL || q->log->cold_count == 0 || count > QUEUE_WINDOW_COUNT / 2 ||
	    octets < QUEUE_WINDOW_OCTETS / 2)
		return;
	store_read(q->vhost->broker->store, q->log, (uint32_t)(QUEUE_WINDOW_COUNT - count),
		   octets / part);
}

void
own_refill(struct queue *q)
{
	refill(q, list_empty(queue_takers(q)) ? GET_PART : 1);
}

void
queue_refill(struct queue *q)
{
	own_refill(unlikely(q->flags & QUEUE_PRIORITIES) ? levels_top(q) : q);
}

void
queue_read_dying(struct queue *q)
{
	refill(q, 1);
}

void
queue_read_first(struct queue *q)
{
	if (q->flags & QUEUE_PAGED)
		page_refill(q);
	if (q->log != NULL && q->log->cold_count > 0)
		store_read(q->vhost->broker->store, q->log, 1, 1);
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
	window_push(q,
		    (struct entry){qseq << 16 | (uint64_t)store_returns(log, qseq) * ENTRY_RETURN |
					   (redelivered ? ENTRY_REDELIVERED : 0),
				   message});
	if (q->life != NULL)
		q->life->cold_time_ms = message->time_ms; // the next one is younger
	if (message->flags & MESSAGE_HAS_EXPIRATION)
		ttl_watch_read(q, message, qseq);
}

void
queue_came_to_hand(struct queue *q)
{
	/* nothing of it could be read: whoever waits waits for the next ones */
	if (own_must_read(q))
		own_refill(q);
	queue_touch(q);
	if (q->flags & QUEUE_LIMITED)
		limits_enforce(q);
	if (q->flags & QUEUE_TTL)
		ttl_arm(q);
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
	queue_came_to_hand(q);
}

void
cold_went(struct queue *q)
{
	if (q->log->cold_count == 0) {
		late_release(q, QSEQ_MAX + 1);
		q->flags &= ~(unsigned)QUEUE_COLD;
	}
	queue_touch(q);
	queue_look_at_yielders(queue_whole(q));
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
	if (q->log != NULL && q->log->cold_count > 0) {
		broker->effect_lsn = store_purge_cold(broker->store, q->log);
		queue_forget_dying(q);
	}
	q->flags &= ~(unsigned)QUEUE_COLD;
}

void
cold_check(const struct queue *q)
{
	uint64_t last = 0;

	uint64_t octets = 0;

	assert(((q->flags & QUEUE_COLD) != 0) == (own_message_count(q) > q->ready_count));
	for (uint32_t i = 0; i < late_count(q); i++) {
		assert(entry_qseq(&q->late->entries[q->late->first + i]) > last);
		last = entry_qseq(&q->late->entries[q->late->first + i]);
		octets += q->late->entries[q->late->first + i].message->body_size;
	}
	assert(octets == (q->late == NULL ? 0 : q->late->octets));
}
