/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages that may not wait for ever (amqp.md 6.9). A queue's own limit (x-message-ttl) is due in the order of the
 * queue: its first message tells when, by the time at which it came and the limit of now, so that another
 * limit acts at once. Of those with an expiration of their own the store tells when they are due if they have a
 * record, wherever they stand (queue_deadlines.c); the others are in a heap by their deadline. So are those with a
 * record that came back, for of them the store may have told already.
 *
 * The heap is not kept up when a message is delivered: an item that finds no message is dropped, and a message that
 * comes back too late is put in again. What is past the queue's limit on the disk expires when it comes to hand: a queue
 * of which nothing is has its first messages read when the first of them may be due, and so on while they die. Of one that
 * was recovered the first message is read at once, to know when it came.
 *
 * Nothing expires while it is unacked. Nothing is handed out after its deadline: dispatching stops at such a
 * message, and the deadline of the queue is due at once.
 */
#include <stdlib.h>

#include "broker/message.h"
#include "internal.h"
#include "store/store.h"
#include "wire/props.h"

/* So many die in one go, then others have their turn. */
#define EXPIRE_MAX 1000
#define EXPIRE_OCTETS (64 * 1024 * 1024)
/* Looking for messages in the middle of a queue takes a walk over its blocks: a long queue is looked at less
 * often. */
#define LONG_QUEUE 4096
#define LONG_STEP_MS 10
/* While the disk is behind. */
#define FULL_MS 2
/* Items for which nobody looks whether they are of any use still. */
#define STALE_MIN 1024

/* ---- deadlines of messages; milliseconds since 1970 ---- */

uint64_t
message_deadline(const struct message *m)
{
	struct basic_properties properties;
	uint64_t ms = 0;
	bool well;

	if (!(m->flags & MESSAGE_HAS_EXPIRATION))
		return UINT64_MAX;
	well = properties_decode(&properties, message_properties(m));
	assert(well);
	/* the session has checked it: digits, with a sign at most */
	for (size_t i = 0; i < properties.expiration.n; i++)
		if (properties.expiration.p[i] >= '0' && properties.expiration.p[i] <= '9')
			ms = 10 * ms + (uint64_t)(properties.expiration.p[i] - '0');
	return m->time_ms + ms;
}

/* When the queue's own limit ends the waiting of a message that came then. */
static uint64_t
limit_of(const struct queue *q, uint64_t time_ms)
{
	uint64_t ttl_ms = queue_settings(q)->ttl_ms;

	return ttl_ms == UINT64_MAX ? UINT64_MAX : time_ms + ttl_ms;
}

static bool
has_limit(const struct queue *q)
{
	return queue_settings(q)->ttl_ms != UINT64_MAX;
}

bool
ttl_is_over(const struct queue *q, const struct entry *entry)
{
	const struct message *m = entry->message;
	uint64_t now_ms = q->vhost->broker->now.wall_ms;

	/* one that may not wait at all may be handed out when it comes, and only then */
	if (m->time_ms >= now_ms && !(entry->bits & ENTRY_REDELIVERED))
		return false;
	return limit_of(q, m->time_ms) <= now_ms ||
	       ((m->flags & MESSAGE_HAS_EXPIRATION) && message_deadline(m) <= now_ms);
}

/* ---- the heap ---- */

/* Of those that are due at once the oldest is first: they may die in several goes. */
static bool
is_sooner(const struct own_deadline *a, const struct own_deadline *b)
{
	return a->deadline_ms < b->deadline_ms ||
	       (a->deadline_ms == b->deadline_ms && a->qseq < b->qseq);
}

static void
heap_push(struct queue_life *life, struct own_deadline item)
{
	uint32_t at = life->own_count++;

	if (at == life->own_room) {
		life->own_room = life->own_room == 0 ? 16 : 2 * life->own_room;
		life->own = xrealloc(life->own, life->own_room * sizeof(*life->own));
	}
	for (; at > 0 && is_sooner(&item, &life->own[(at - 1) / 2]); at = (at - 1) / 2)
		life->own[at] = life->own[(at - 1) / 2];
	life->own[at] = item;
}

static void
heap_down(struct queue_life *life, uint32_t at, struct own_deadline item)
{
	uint32_t n = life->own_count;

	for (uint32_t child; (child = 2 * at + 1) < n; at = child) {
		if (child + 1 < n && is_sooner(&life->own[child + 1], &life->own[child]))
			child++;
		if (!is_sooner(&life->own[child], &item))
			break;
		life->own[at] = life->own[child];
	}
	life->own[at] = item;
}

static struct own_deadline
heap_pop(struct queue_life *life)
{
	struct own_deadline top = life->own[0];
	struct own_deadline last = life->own[--life->own_count];

	if (life->own_count > 0)
		heap_down(life, 0, last);
	return top;
}

/* Drops the items of messages that are behind the first one of the queue, once they are most of them. */
static void
heap_tidy(struct queue *q)
{
	struct queue_life *life = q->life;
	uint64_t first = q->ready_count > 0 ? entry_qseq(queue_oldest(q)) : UINT64_MAX;
	uint32_t kept = 0;

	if (life->own_count < STALE_MIN || life->own_count / 4 < own_message_count(q) ||
	    (q->ready_count == 0 && own_message_count(q) > 0))
		return;
	for (uint32_t i = 0; i < life->own_count; i++)
		if (life->own[i].qseq >= first)
			life->own[kept++] = life->own[i];
	life->own_count = kept;
	for (uint32_t i = kept / 2; i > 0; i--)
		heap_down(life, i - 1, life->own[i - 1]);
}

/* ---- when to look ---- */

/* When the time of a message is over in this queue. */
static uint64_t
end_of(const struct queue *q, const struct message *m)
{
	return min_u64(limit_of(q, m->time_ms), message_deadline(m));
}

/* When the time of the first message of the queue is over; for one on the disk, no sooner than that. */
static uint64_t
first_end(const struct queue *q)
{
	if (q->ready_count > 0)
		return end_of(q, queue_oldest(q)->message);
	return own_message_count(q) > 0 ? limit_of(q, q->life->cold_time_ms) : UINT64_MAX;
}

void
ttl_arm(struct queue *q)
{
	struct queue_life *life = q->life;
	struct broker *broker = q->vhost->broker;
	uint64_t wall_ms = first_end(q);
	uint64_t wait_ms;

	if (life->own_count > 0)
		wall_ms = min_u64(wall_ms, life->own[0].deadline_ms);
	if (wall_ms == UINT64_MAX) {
		deadline_clear(broker->deadlines, &life->due);
		return;
	}
	wait_ms = wall_ms <= broker->now.wall_ms ? 0 : wall_ms - broker->now.wall_ms;
	if (wait_ms > 0 && q->ready_count > LONG_QUEUE)
		wait_ms = max_u64(wait_ms, LONG_STEP_MS);
	deadline_set(broker->deadlines, &life->due, broker->now.monotonic_ms + wait_ms);
}

/* Nothing is due sooner than is known already. */
static bool
is_armed_for(const struct queue *q, uint64_t wall_ms)
{
	const struct broker *broker = q->vhost->broker;
	const struct deadline *due = &q->life->due;

	return deadline_is_set(due) &&
	       (due->at_ms <= broker->now.monotonic_ms ||
		wall_ms - broker->now.wall_ms >= due->at_ms - broker->now.monotonic_ms);
}

/* own: the message is one for the heap. */
static void
watch(struct queue *q, const struct message *m, uint64_t qseq, bool own)
{
	uint64_t deadline_ms = message_deadline(m);
	uint64_t wall_ms = limit_of(q, m->time_ms);

	if (wall_ms == UINT64_MAX && deadline_ms == UINT64_MAX)
		return;
	life_need(q);
	q->flags |= QUEUE_TTL;
	if (own && deadline_ms != UINT64_MAX) {
		heap_tidy(q);
		heap_push(q->life, (struct own_deadline){deadline_ms, qseq});
		wall_ms = min_u64(wall_ms, deadline_ms);
	}
	if (wall_ms == UINT64_MAX)
		return;
	wall_ms = max_u64(wall_ms, q->vhost->broker->now.wall_ms);
	if (!is_armed_for(q, wall_ms))
		ttl_arm(q);
}

void
ttl_watch(struct queue *q, const struct message *m, uint64_t qseq)
{
	watch(q, m, qseq, true);
}

void
ttl_watch_new(struct queue *q, const struct message *m, uint64_t qseq)
{
	watch(q, m, qseq, q->log == NULL || !message_is_stored(m));
}

void
ttl_watch_read(struct queue *q, const struct message *m, uint64_t qseq)
{
	/* what is late is not told again, and what is not was read by many before */
	watch(q, m, qseq, message_deadline(m) <= q->vhost->broker->now.wall_ms);
}

void
ttl_expire(struct queue *q, uint64_t qseq)
{
	life_need(q);
	q->flags |= QUEUE_TTL;
	heap_push(q->life, (struct own_deadline){0, qseq});
	if (!is_armed_for(q, q->vhost->broker->now.wall_ms))
		ttl_arm(q);
}

void
ttl_recovered(struct queue *q)
{
	/* when its first message came must be read: at once, but not before anything else */
	if (q->log->cold_count == 0 || !has_limit(q))
		return;
	life_need(q);
	q->life->unlooked = true;
	deadline_set(q->vhost->broker->deadlines, &q->life->due, 0);
}

/* ---- what is due ---- */

/* Takes the first ones whose time is over; how many. */
static uint32_t
expire_first(struct queue *q)
{
	uint32_t n = 0;

	for (; n < EXPIRE_MAX && q->ready_count > 0 && queue_may_bury_first(q) &&
	       !broker_store_behind(q->vhost->broker);
	     n++) {
		struct entry entry = *queue_oldest(q);

		if (end_of(q, entry.message) > q->vhost->broker->now.wall_ms)
			break;
		queue_pop_oldest(q);
		queue_bury(q, &entry, DEATH_EXPIRED);
	}
	return n;
}

/* All of them may become dead letters in one batch. */
static uint32_t
expire_most(const struct queue *q)
{
	uint64_t octets = q->ready_count == 0 ? 0 : q->body_bytes / q->ready_count;

	return (uint32_t)max_u64(1, min_u64(EXPIRE_MAX, EXPIRE_OCTETS / (octets + 1)));
}

static int
by_age(const void *left, const void *right)
{
	return compare_u64(&((const struct entry *)left)->bits,
			   &((const struct entry *)right)->bits);
}

/* Takes those out that are past their own deadlines, and lets them die oldest first; how many items went. */
static uint32_t
expire_own(struct queue *q)
{
	struct queue_life *life = q->life;
	uint64_t qseqs[EXPIRE_MAX];
	struct entry entries[EXPIRE_MAX];
	uint32_t most = expire_most(q);
	uint32_t n = 0;
	uint32_t found;

	while (n < most && life->own_count > 0 &&
	       life->own[0].deadline_ms <= q->vhost->broker->now.wall_ms)
		qseqs[n++] = heap_pop(life).qseq;
	if (n == 0)
		return 0;
	qsort(qseqs, n, sizeof(*qseqs), compare_u64);
	found = window_take(q, qseqs, n, entries);
	found += late_take(q, qseqs, n, entries + found);
	if (q->flags & QUEUE_GROUPED)
		found += groups_take(q, qseqs, n, entries + found);
	qsort(entries, found, sizeof(*entries), by_age);
	for (uint32_t i = 0; i < found; i++)
		queue_bury(q, &entries[i], DEATH_EXPIRED);
	return n;
}

/* One go; whether anything died. */
static bool
run(struct queue *q)
{
	uint32_t n;

	if (broker_store_behind(q->vhost->broker))
		return false;
	n = expire_first(q) + expire_own(q);
	if (n > 0)
		queue_look_at_yielders(queue_whole(q));
	return n > 0;
}

void
ttl_on_deadline(struct deadline *deadline, uint64_t now_ms)
{
	struct queue *q = container_of(deadline, struct queue_life, due)->queue;
	struct broker *broker = q->vhost->broker;
	bool unlooked = q->life->unlooked;
	bool some;

	/* one that may not wait at all is for a consumer that waits for it */
	queue_dispatch_dirty(queue_whole(q));
	some = run(q);
	if (broker_store_behind(broker)) {
		deadline_set(broker->deadlines, deadline, now_ms + FULL_MS);
		return;
	}
	q->life->unlooked = false;
	/* of those on the disk the first one is looked at, and when some have died a window, and so on */
	if (own_must_read(q) && some && (q->ready_count > 0 || has_limit(q)))
		queue_read_dying(q);
	else if (own_must_read(q) && (unlooked || first_end(q) <= broker->now.wall_ms))
		queue_read_first(q);
	else
		ttl_arm(q);
}

void
ttl_catch_up(struct queue *q)
{
	deadlines_catch_up(q->vhost->broker);
	if (q->ready_count > 0 && ttl_is_over(q, queue_oldest(q)))
		ttl_arm(q);
	while (deadline_is_set(&q->life->due) &&
	       q->life->due.at_ms <= q->vhost->broker->now.monotonic_ms && run(q))
		ttl_arm(q);
}
