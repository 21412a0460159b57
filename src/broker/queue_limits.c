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
#include "keys.h"
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

/* Where its first message is, or would be. */
static struct queue *
first_level(struct queue *q)
{
	return (q->flags & QUEUE_PRIORITIES) ? levels_top(q) : q;
}

static void
trim(struct queue *q)
{
	struct broker *broker = q->vhost->broker;
	struct queue *first;
	bool full = false;
	uint32_t n = 0;

	if (is_over(q, 0, 0))
		queue_hand_out(q);
	while (n < TRIM_MAX && is_over(q, 0, 0) && (first = first_level(q))->ready_count > 0 &&
	       queue_may_bury_first(first) && !(full = broker_store_behind(broker))) {
		struct entry entry = queue_pop_oldest(first);

		queue_bury(first, &entry, DEATH_MAXLEN);
		n++;
	}
	if ((full || n == TRIM_MAX) && is_over(q, 0, 0))
		deadline_set(broker->deadlines, &q->life->trim,
			     broker->now.monotonic_ms + (full ? FULL_MS : 0));
	else if (queue_is_behind(q))
		queue_read_dying(first_level(q));
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
limits_enforce(struct queue *level)
{
	struct queue *q = queue_whole(level);
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

/* What the queues of a route do with a message. */
struct verdict {
	struct route admitted; // they take it; with the keys that are to be remembered then
	struct route refused;
	bool is_duplicate; // some do without it
};

static void
add(struct route *route, struct queue *q)
{
	if (route->count == route->room)
		route_grow(route);
	route->queues[route->count++] = q;
}

/* A full queue that knows the message refuses nothing. */
static void
ask(struct queue *q, const struct message *message, struct verdict *verdict)
{
	enum key_answer answer = KEY_NONE;
	struct key_mark mark;

	if (q->flags & QUEUE_DEDUPLICATES)
		answer = keys_ask_queue(q, message, &mark);
	if (answer == KEY_KNOWN) {
		verdict->is_duplicate = true;
	} else if (refuses(q, message)) {
		add(&verdict->refused, q);
	} else {
		add(&verdict->admitted, q);
		if (answer == KEY_NEW)
			route_add_mark(&verdict->admitted, &mark);
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
	if (q->flags & QUEUE_LEVEL)
		levels_touch(q);
	if (q->flags & QUEUE_LIMITED)
		limits_enforce(q);
}

void
queue_return(struct queue *q, struct message *message)
{
	struct broker *broker = q->vhost->broker;
	struct route route = {.queues = &q, .count = 1};

	message->time_ms = broker->now.wall_ms;
	levels_choose(&route, message); // q may be a level of it then
	keys_move(&route, message);
	queue_publish_admitted(broker, &route, message);
	keys_note(&route, message);
	look_at(q, message);
	route.queues = NULL;
	route_fini(&route);
}

/* Who publishes what some queue refused may do so again: no exchange on the way remembers it. */
static struct publish_result
publish_to(struct broker *broker, const struct route *route, struct verdict *verdict,
	   struct message *message)
{
	struct publish_result result = {0, verdict->refused.count > 0};

	if (!result.rejected)
		route_copy_marks(&verdict->admitted, route);
	levels_choose(&verdict->admitted, message);
	if (verdict->admitted.count > 0)
		result.lsn = queue_publish_admitted(broker, &verdict->admitted, message).lsn;
	keys_note(&verdict->admitted, message);
	if (verdict->is_duplicate)
		result.lsn = max_u64(result.lsn, duplicate_lsn(broker));
	return result;
}

NEVER_INLINE struct publish_result
limits_publish(struct broker *broker, const struct route *route, struct message *message)
{
	struct verdict verdict = {.is_duplicate = false};
	struct publish_result result;

	for (uint32_t i = 0; i < route->count; i++)
		ask(route->queues[i], message, &verdict);
	result = publish_to(broker, route, &verdict, message);
	for (uint32_t i = 0; i < verdict.refused.count; i++) {
		struct queue *q = verdict.refused.queues[i];

		if (queue_settings(q)->overflow == OVERFLOW_REJECT_DEAD_LETTER)
			dead_letter_send(q, message, DEATH_MAXLEN);
	}
	for (uint32_t i = 0; i < verdict.admitted.count; i++)
		look_at(verdict.admitted.queues[i], message);
	route_fini(&verdict.admitted);
	route_fini(&verdict.refused);
	return result;
}
