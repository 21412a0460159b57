/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What moves through a queue: publishes in, entries out to consumers with credit at the end of the turn
 * (amqp.md 7.10), settlements back. And the rule that publishers yield while consumers take but fall
 * behind (DECISIONS.md): every event that ends the reason looks at the waiting publishers again.
 */
#include "internal.h"
#include "keys.h"
#include "store/store.h"

#include "waiting.h"

/* A consumer that took nothing for this long does not hold publishers back. */
#define TAKING_MS 200
/* Messages ready at which publishers to a queue with a log yield, and at which they go on: a window and what one
 * budget brings must stay in memory, as what has left it is delivered by way of the disk until all of it is. */
#define YIELD_COUNT_HIGH (QUEUE_WINDOW_COUNT / 4)
#define YIELD_COUNT_LOW (QUEUE_WINDOW_COUNT / 8)

/* For a queue that is no level. */
static ALWAYS_INLINE void
touch(struct queue *q)
{
	if (!list_linked(&q->dirty) && !list_empty(&q->takers) &&
	    (q->ready_count > 0 || queue_has_more(q)))
		list_append(&q->vhost->broker->dirty, &q->dirty);
}

void
queue_touch(struct queue *q)
{
	if (unlikely(q->flags & QUEUE_LEVEL))
		levels_touch(q);
	else
		touch(q);
}

static ALWAYS_INLINE void
push_entry(struct queue *q, struct message *message)
{
	struct entry entry = {q->next_qseq++ << 16, message_ref(message)};

	if (unlikely(q->flags & QUEUE_COLD))
		cold_push_late(q, entry);
	else
		window_push(q, entry);
	q->publish_count++;
	touch(q);
}

static NEVER_INLINE void
push_entries(const struct route *route, struct message *message)
{
	for (uint32_t i = 0; i < route->count; i++)
		push_entry(route->queues[i], message);
}

/* The same for a message that has a record for the durable ones among them. */
static void
push_stored(const struct route *route, struct message *message)
{
	for (uint32_t i = 0; i < route->count; i++) {
		struct queue *q = route->queues[i];
		uint64_t qseq = q->next_qseq++;

		if (q->log != NULL && cold_takes(q))
			cold_push(q, qseq, message->body_size);
		else
			window_push(q, (struct entry){qseq << 16, message_ref(message)});
		q->publish_count++;
		touch(q);
	}
}

static NEVER_INLINE struct publish_result
publish_stored(struct broker *broker, const struct route *route, struct message *message)
{
	struct publish_result result = {queue_store(broker, route, message), false};

	push_stored(route, message);
	if (unlikely(broker->resident_octets > broker->options.cache_size))
		cold_evict(broker);
	return result;
}

static ALWAYS_INLINE struct publish_result
publish(struct broker *broker, const struct route *route, struct message *message)
{
	if ((message->flags & MESSAGE_PERSISTENT) && broker->store != NULL)
		return publish_stored(broker, route, message);
	if (likely(route->count == 1))
		push_entry(route->queues[0], message);
	else
		push_entries(route, message);
	return (struct publish_result){0, false};
}

struct publish_result
queue_publish_admitted(struct broker *broker, const struct route *route, struct message *message)
{
	if (unlikely(route->mark_count > 0))
		keys_place(route);
	return publish(broker, route, message);
}

/* A message has one record and one time; x-recent-history routes one again. */
static NEVER_INLINE struct publish_result
publish_again(struct broker *broker, const struct route *route, const struct message *message)
{
	struct message *copy = message_copy(message);
	struct publish_result result = queue_publish(broker, route, copy);

	message_unref(copy);
	return result;
}

/* Of all queues of the route, of which there is one at least. */
static ALWAYS_INLINE unsigned
flags_of(const struct route *route)
{
	unsigned flags = route->queues[0]->flags;

	for (uint32_t i = 1; i < route->count; i++)
		flags |= route->queues[i]->flags;
	return flags;
}

/* What of a queue asks for more than a new entry. */
#define QUEUE_PUBLISH_CARE \
	(QUEUE_LIMITED | QUEUE_TTL | QUEUE_DEDUPLICATES | QUEUE_PRIORITIES | QUEUE_WAITING)

static NEVER_INLINE struct publish_result
publish_with_care(struct broker *broker, const struct route *route, struct message *message,
		  unsigned flags)
{
	if (flags & QUEUE_WAITING) {
		message->time_ms = 0; // it may be published to queues yet
		return waiting_room_publish(broker, route, message);
	}
	if ((flags & (QUEUE_LIMITED | QUEUE_TTL | QUEUE_DEDUPLICATES)) ||
	    (message->flags & MESSAGE_HAS_EXPIRATION) || route->mark_count > 0)
		return limits_publish(broker, route, message);
	return levels_publish(broker, route, message);
}

struct publish_result
queue_publish(struct broker *broker, const struct route *route, struct message *message)
{
	unsigned flags;

	assert_not_dispatching(broker);
	if (unlikely(route->count == 0))
		return (struct publish_result){0, false};
	if (unlikely(message->time_ms != 0))
		return publish_again(broker, route, message);
	message->time_ms = broker->now.wall_ms;
	flags = flags_of(route);
	if (unlikely((flags & QUEUE_PUBLISH_CARE) != 0 ||
		     (message->flags & MESSAGE_HAS_EXPIRATION) || route->mark_count > 0))
		return publish_with_care(broker, route, message, flags);
	return publish(broker, route, message);
}

void
takers_insert(struct queue *q, struct consumer *consumer)
{
	struct list_link *link = q->takers.head.prev;

	while (link != &q->takers.head &&
	       container_of(link, struct consumer, taker)->priority < consumer->priority)
		link = link->prev;
	list_insert_before(&q->takers, link->next, &consumer->taker);
}

static void
takers_rotate(struct queue *q, struct consumer *consumer)
{
	if (q->takers.count == 1)
		return;
	list_remove(&q->takers, &consumer->taker);
	takers_insert(q, consumer);
}

static void
count_delivery(struct queue *q, const struct consumer *consumer, const struct entry *entry)
{
	if (consumer->no_ack) {
		q->deliver_no_ack_count++;
	} else {
		q->deliver_count++;
		q->unacked_count++;
	}
	if (entry->bits & ENTRY_REDELIVERED)
		q->redeliver_count++;
}

/* Whether its consumers are behind by more than that. What is set aside waits for one consumer, and may do so for
 * long. */
static bool
is_behind_by(const struct queue *q, uint64_t octets, uint64_t count)
{
	struct aside aside = groups_aside(q);
	uint64_t waiting = q->ready_bytes - aside.octets;

	if (unlikely(q->flags & QUEUE_PRIORITIES))
		waiting += levels_sums(q).waiting;
	if (q->log == NULL)
		return waiting > octets;
	return waiting + q->log->cold_octets > octets ||
	       queue_message_count(q) - aside.count > count;
}

NEVER_INLINE bool
queue_must_keep(const struct queue *q, const struct entry *entry)
{
	return (entry->message->flags & MESSAGE_PAGED) ||
	       ((q->flags & QUEUE_TTL) && ttl_is_over(q, entry));
}

/* level: whose entry it is, the queue itself or a level of it. */
static ALWAYS_INLINE void
note_delivery(struct queue *q, struct queue *level, struct consumer *consumer,
	      const struct entry *entry)
{
	count_delivery(level, consumer, entry);
	if (consumer->no_ack) {
		queue_settle(level, entry, ACK_CONSUMED);
		message_unref(entry->message);
	}
	takers_rotate(q, consumer);
}

void
queue_delivered(struct queue *q, struct consumer *consumer, const struct entry *entry)
{
	note_delivery(q, q, consumer, entry);
}

/* Offers entries of the queue, or of a level of it, until one side is out; whether any was taken. With care the first
 * one may also be one that is not to be handed out: a stub, or one that waited too long. */
static ALWAYS_INLINE bool
offer_entries(struct queue *q, struct queue *level, bool care)
{
	bool took = false;

	while (level->ready_count > 0 && !list_empty(&q->takers)) {
		struct consumer *consumer = list_first(&q->takers, struct consumer, taker);
		struct entry entry = *window_first(level);

		if (care) {
			if (queue_must_keep(level, &entry))
				break;
			consumer->from = level;
		}
		if (consumer->ops->deliver(consumer, &entry) == DELIVER_FULL) {
			list_remove(&q->takers, &consumer->taker);
			continue;
		}
		window_pop(level);
		note_delivery(q, level, consumer, &entry);
		took = true;
	}
	return took;
}

/* Dispatching may have stopped at a message that is to die. */
static void
look_at_end(const struct queue *q, struct queue *level)
{
	if ((level->flags & QUEUE_TTL) && level->ready_count > 0 && !list_empty(&q->takers))
		ttl_arm(level);
}

/* From the highest level down. What cannot be handed out yet holds up those below it. */
static bool
offer_levels(struct queue *q)
{
	bool took = false;

	while (!list_empty(&q->takers)) {
		struct queue *level = levels_top(q);

		if (offer_entries(q, level, true)) {
			level->taken_ms = q->vhost->broker->now.monotonic_ms;
			took = true;
		}
		if (level == q || own_message_count(level) > 0)
			break;
	}
	look_at_end(q, levels_top(q));
	return took;
}

static NEVER_INLINE bool
offer_with_care(struct queue *q)
{
	bool took;

	if (q->flags & QUEUE_PRIORITIES)
		return offer_levels(q);
	took = (q->flags & QUEUE_GROUPED) ? groups_offer(q) : offer_entries(q, q, true);
	look_at_end(q, q);
	return took;
}

/* Has what comes next read before consumers need it. */
static NEVER_INLINE void
look_ahead(struct queue *q)
{
	struct queue *level = (q->flags & QUEUE_PRIORITIES) ? levels_top(q) : q;

	if (!(level->flags & (QUEUE_COLD | QUEUE_PAGED)))
		return;
	if (!list_empty(&q->takers))
		own_refill(level);
	else if (level->flags & QUEUE_PAGED)
		page_refill(level);
}

void
queue_dispatch(struct queue *q)
{
	struct broker *broker = q->vhost->broker;

	if (unlikely(q->gate_lsn > broker->stable))
		return;
	broker->dispatching = true;
	if (unlikely(q->flags & (QUEUE_PAGED | QUEUE_TTL | QUEUE_GROUPED | QUEUE_PRIORITIES))
		    ? offer_with_care(q)
		    : offer_entries(q, q, false))
		q->taken_ms = broker->now.monotonic_ms;
	broker->dispatching = false;
	if (unlikely(q->flags & (QUEUE_COLD | QUEUE_PAGED | QUEUE_PRIORITIES)))
		look_ahead(q);
	queue_look_at_yielders(q);
}

void
queue_look_at_yielders(struct queue *q)
{
	if (!list_empty(&q->yielders) &&
	    !is_behind_by(q, q->vhost->broker->options.yield_low, YIELD_COUNT_LOW))
		queue_wake_yielders(q);
}

bool
queue_may_bury_first(const struct queue *q)
{
	return !queue_settings(q)->dead_letters || !own_must_read(q);
}

void
queue_dispatch_dirty(struct queue *q)
{
	assert_not_dispatching(q->vhost->broker);
	if (list_linked(&q->dirty)) {
		list_remove(&q->vhost->broker->dirty, &q->dirty);
		queue_dispatch(q);
	}
}

static void
catch_up(void *context, struct queue *q)
{
	(void)context;
	if (q->flags & QUEUE_TTL)
		ttl_catch_up(q);
}

void
queue_hand_out(struct queue *q)
{
	queue_dispatch_dirty(q);
	if (unlikely(q->flags & (QUEUE_TTL | QUEUE_PRIORITIES)))
		catch_up(NULL, q);
	if (unlikely(q->flags & QUEUE_PRIORITIES))
		levels_each(q, catch_up, NULL);
}

/* Takes the entry that is next for basic.get. */
static bool
get_next(struct queue *q, bool no_ack, struct entry *entry)
{
	if (unlikely(q->flags & QUEUE_GROUPED))
		return groups_get(q, !no_ack, entry);
	if (q->ready_count == 0 || ((q->flags & QUEUE_TTL) && ttl_is_over(q, window_first(q))))
		return false;
	*entry = window_pop(q);
	return true;
}

struct queue *
queue_get(struct queue *q, bool no_ack, struct entry *entry)
{
	assert_not_dispatching(q->vhost->broker);
	queue_used(q);
	if (unlikely(q->flags & QUEUE_PRIORITIES))
		q = levels_top(q);
	if (!get_next(q, no_ack, entry))
		return NULL;
	assert(!(entry->message->flags & MESSAGE_PAGED));
	q->get_count++;
	if (no_ack)
		queue_settle(q, entry, ACK_CONSUMED);
	else
		q->unacked_count++;
	if (entry->bits & ENTRY_REDELIVERED)
		q->redeliver_count++;
	return q;
}

static void
settle_acked(struct queue *q, const struct entry *entry)
{
	if (q->flags & QUEUE_GROUPED)
		groups_settled(q, entry);
	queue_settle(q, entry, ACK_CONSUMED);
}

void
queue_ack(struct queue *q, const struct entry *entry)
{
	assert_not_dispatching(q->vhost->broker);
	assert(q->unacked_count > 0);
	q->unacked_count--;
	q->ack_count++;
	if (unlikely(q->flags & (QUEUE_STORED | QUEUE_GROUPED | QUEUE_HOLDS_KEYS)))
		settle_acked(q, entry);
	message_unref(entry->message);
}

void
queue_reject(struct queue *q, const struct entry *entry)
{
	assert_not_dispatching(q->vhost->broker);
	assert(q->unacked_count > 0);
	q->unacked_count--;
	if (q->flags & QUEUE_GROUPED)
		groups_settled(q, entry);
	queue_bury(q, entry, DEATH_REJECTED);
}

/* The entry as it comes back, one return more; false when that is one too many. */
static bool
count_return(struct queue *q, struct entry *entry)
{
	uint32_t returns = entry_returns(entry);

	if (returns >= queue_settings(q)->delivery_limit)
		return false;
	if (returns < ENTRY_RETURNS_MAX) {
		entry->bits += ENTRY_RETURN;
		queue_note_return(q, entry);
	}
	return true;
}

void
queue_requeue(struct queue *q, const struct entry *requeued)
{
	struct entry back = *requeued;
	const struct entry *entry = &back;

	if (q->flags & QUEUE_DELETED) {
		queue_reject(q, entry);
		return;
	}
	assert_not_dispatching(q->vhost->broker);
	assert(q->unacked_count > 0);
	q->unacked_count--;
	if (unlikely(q->flags & QUEUE_GROUPED))
		groups_settled(q, entry);
	if (unlikely(q->flags & QUEUE_COUNTS) && !count_return(q, &back)) {
		queue_bury(q, entry, DEATH_DELIVERY_LIMIT);
		return;
	}
	if (q->log != NULL)
		q->log->redelivered_below =
			max_u64(q->log->redelivered_below, entry_qseq(entry) + 1);
	window_requeue(q, (struct entry){entry->bits | ENTRY_REDELIVERED, entry->message});
	queue_touch(q);
	if (unlikely((q->flags & QUEUE_TTL) || (entry->message->flags & MESSAGE_HAS_EXPIRATION)))
		ttl_watch(q, entry->message, entry_qseq(entry));
	if (unlikely(q->flags & QUEUE_LIMITED))
		limits_enforce(q);
}

bool
queue_wants_yield(const struct queue *q)
{
	const struct broker *broker = q->vhost->broker;

	return !list_empty(&q->consumers) && broker->now.monotonic_ms - q->taken_ms <= TAKING_MS &&
	       is_behind_by(q, broker->options.yield_high, YIELD_COUNT_HIGH);
}

void
yielder_wait(struct yielder *yielder, struct queue *q)
{
	assert(yielder->queue == NULL);
	yielder->queue = queue_ref(q);
	list_append(&q->yielders, &yielder->of_queue);
}

void
yielder_stop(struct yielder *yielder)
{
	struct queue *q = yielder->queue;

	if (q == NULL)
		return;
	list_remove(&q->yielders, &yielder->of_queue);
	yielder->queue = NULL;
	queue_unref(q);
}

void
queue_wake_yielders(struct queue *q)
{
	struct list_link *link;

	while ((link = list_pop(&q->yielders)) != NULL) {
		struct yielder *yielder = container_of(link, struct yielder, of_queue);

		yielder->queue = NULL;
		yielder->go_on(yielder);
		queue_unref(q);
	}
}
