/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits on what is ready in a queue: messages and octets of their bodies (amqp.md 6.8), and the way of a publish to
 * queues that have limits, or of a message that does. A queue that would have
 * too much refuses what comes, or takes it in, hands out what consumers can take, and lets its oldest ones die.
 *
 * Dead letters may fill the next queue, and so on: queues that may have too much go on a list that is worked off
 * by whoever was first, so a long way of dead letters needs no stack. The oldest message may be on the disk:
 * then it is read, and dies when it comes; who publishes faster than that must wait.
 */
#include "broker/message.h"
#include "internal.h"
#include "route.h"
#include "store/store.h"

/* So many are dropped in one go, then others have their turn; after how long, while the disk is behind. */
#define TRIM_MAX 1000
#define FULL_MS 2

/* UINT64_MAX is no limit and stays none. */
static uint64_t
add_capped(uint64_t limit, uint64_t more)
{
	return limit > UINT64_MAX - more ? UINT64_MAX : limit + more;
}

/* Whether so many more messages, with bodies of so many octets, are too much. */
static bool
is_over(const struct queue *q, uint64_t more, uint64_t octets)
{
	const struct queue_settings *settings = queue_settings(q);

	return queue_message_count(q) + more > settings->length_max ||
	       queue_octets(q) + octets > settings->octets_max;
}

/* What a queue may have beyond its limit before its publishers wait. */
#define BEHIND_COUNT (QUEUE_WINDOW_COUNT / 2)
#define BEHIND_OCTETS QUEUE_WINDOW_OCTETS

bool
queue_is_behind(const struct queue *q)
{
	const struct queue_settings *settings = queue_settings(q);

	if (!(q->flags & QUEUE_LIMITED) || settings->overflow != OVERFLOW_DROP_HEAD)
		return false;
	return queue_message_count(q) > add_capped(settings->length_max, BEHIND_COUNT) ||
	       queue_octets(q) > add_capped(settings->octets_max, BEHIND_OCTETS);
}

static bool
refuses(const struct queue *q, const struct message *message)
{
	return queue_settings(q)->overflow != OVERFLOW_DROP_HEAD &&
	       is_over(q, 1, message->body_size);
}

/* ---- trimming ---- */

static void
trim(struct queue *q)
{
	struct broker *broker = q->vhost->broker;
	bool full = false;
	uint32_t n = 0;

	if (is_over(q, 0, 0))
		queue_hand_out(q);
	while (n < TRIM_MAX && is_over(q, 0, 0) && q->ready_count > 0 && queue_may_bury_first(q) &&
	       !(full = broker_store_behind(broker))) {
		struct entry entry = queue_pop_oldest(q);

		queue_bury(q, &entry, DEATH_MAXLEN);
		n++;
	}
	if ((full || n == TRIM_MAX) && is_over(q, 0, 0))
		deadline_set(broker->deadlines, &q->life->trim,
			     broker->now.monotonic_ms + (full ? FULL_MS : 0));
	else if (queue_is_behind(q))
		queue_read_dying(q);
	else if (is_over(q, 0, 0))
		queue_refill(q);
	if (!list_empty(&q->yielders) && !queue_is_behind(q))
		queue_wake_yielders(q);
}

void
limits_on_deadline(struct deadline *deadline, uint64_t now_ms)
{
	(void)now_ms;
	limits_enforce(container_of(deadline, struct queue_life, trim)->queue);
}

void
limits_enforce(struct queue *q)
{
	struct broker *broker = q->vhost->broker;
	struct list_link *link;

	if (q->life == NULL || queue_settings(q)->overflow != OVERFLOW_DROP_HEAD ||
	    !is_over(q, 0, 0))
		return;
	if (!list_linked(&q->life->over))
		list_append(&broker->over, &q->life->over);
	if (broker->trimming)
		return;
	broker->trimming = true;
	while ((link = list_pop(&broker->over)) != NULL)
		trim(container_of(link, struct queue_life, over)->queue);
	broker->trimming = false;
}

/* ---- publishing ---- */

/* The queues of the route that take the message; whether all do. */
static bool
admit(const struct route *route, const struct message *message, struct route *admitted)
{
	bool all = true;

	for (uint32_t i = 0; i < route->count; i++) {
		struct queue *q = route->queues[i];

		if (refuses(q, message)) {
			all = false;
			continue;
		}
		if (admitted->count == admitted->room)
			route_grow(admitted);
		admitted->queues[admitted->count++] = q;
	}
	return all;
}

/* Those that were refused die where their queue wants to know of it. */
static void
bury_refused(const struct route *route, const struct route *admitted, struct message *message)
{
	uint32_t next = 0;

	for (uint32_t i = 0; i < route->count; i++) {
		struct queue *q = route->queues[i];

		if (next < admitted->count && admitted->queues[next] == q)
			next++;
		else if (queue_settings(q)->overflow == OVERFLOW_REJECT_DEAD_LETTER)
			dead_letter_send(q, message, DEATH_MAXLEN);
	}
}

/* The queue has just got the message. */
static void
look_at(struct queue *q, const struct message *message)
{
	if ((q->flags & QUEUE_TTL) || (message->flags & MESSAGE_HAS_EXPIRATION)) {
		ttl_watch_new(q, message, q->next_qseq - 1);
		if (q->log != NULL && q->log->cold_count == 1 && q->life != NULL)
			q->life->cold_time_ms = message->time_ms;
	}
	if (q->flags & QUEUE_LIMITED)
		limits_enforce(q);
}

NEVER_INLINE struct publish_result
limits_publish(struct broker *broker, const struct route *route, struct message *message)
{
	struct publish_result result = {0, false};
	struct route admitted;

	route_init(&admitted);
	result.rejected = !admit(route, message, &admitted);
	if (admitted.count > 0)
		result.lsn = queue_publish_admitted(broker, &admitted, message).lsn;
	if (result.rejected)
		bury_refused(route, &admitted, message);
	for (uint32_t i = 0; i < admitted.count; i++)
		look_at(admitted.queues[i], message);
	route_fini(&admitted);
	return result;
}
