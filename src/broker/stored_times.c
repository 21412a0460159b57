/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the store's index of deadlines gives, each once and in order of time, goes to the queues that it is of
 * (queue_deadlines.c). Waiting rooms get theirs AHEAD_MS before the time, so that what is to be read is there when it is due. Messages come to hand
 * by that, so there is a bound on how much: SOON_COUNT or SOON_OCTETS. What is nearly due may be twice that, so that
 * what waits in memory for a later moment never keeps it back.
 *
 * What is of other queues comes between that, and is kept until its time: KEPT_MAX of it, then no more is looked ahead.
 */
#include "broker/durable.h"
#include "broker/message.h"
#include "waiting.h"

#define AHEAD_MS 500
#define NEAR_MS 20
#define SOON_COUNT QUEUE_WINDOW_COUNT
#define SOON_OCTETS (4 * 1024 * 1024)
#define KEPT_MAX 4096 // a power of two

struct stored_times *
stored_times_new(void)
{
	struct stored_times *times = xcalloc(1, sizeof(*times));

	list_init(&times->touched);
	return times;
}

void
stored_times_free(struct stored_times **times)
{
	struct stored_times *t = *times;

	assert(list_empty(&t->touched));
	assert(t->soon_count == 0);
	assert(t->soon_octets == 0);
	xfree(t->kept);
	xfree(t);
	*times = NULL;
}

/* ---- what is at hand ---- */

void
stored_times_count(struct broker *broker, const struct waiting *w, bool came)
{
	struct stored_times *times = broker->times;

	if (came) {
		times->soon_count++;
		times->soon_octets += w->place.body_size;
		return;
	}
	assert(times->soon_count > 0);
	assert(times->soon_octets >= w->place.body_size);
	times->soon_count--;
	times->soon_octets -= w->place.body_size;
}

/* Whether there may be more at hand, of so many halves of what there should be. */
static bool
has_room(const struct stored_times *times, uint64_t halves)
{
	return times->soon_count < halves * SOON_COUNT / 2 &&
	       times->soon_octets < halves * SOON_OCTETS / 2;
}

bool
stored_times_near(const struct broker *broker, uint64_t due_ms)
{
	uint64_t until_ms = broker->now.wall_ms + AHEAD_MS;

	/* half of the room is for what comes from the disk */
	return due_ms <= until_ms && has_room(broker->times, 1) &&
	       store_next_deadline(broker->store) > until_ms;
}

void
stored_times_touch(struct waiting_room *room)
{
	if (!list_linked(&room->touched))
		list_append(&room->queue->vhost->broker->times->touched, &room->touched);
}

/* ---- what is kept ---- */

static struct store_deadline *
kept_at(const struct stored_times *times, uint32_t index)
{
	return &times->kept[(times->first + index) & (KEPT_MAX - 1)];
}

static void
keep(struct stored_times *times, const struct store_deadline *deadline)
{
	assert(times->count < KEPT_MAX);
	if (times->kept == NULL)
		times->kept = xmalloc(KEPT_MAX * sizeof(*times->kept));
	*kept_at(times, times->count++) = *deadline;
}

void
stored_times_forget(struct broker *broker, const struct queue_log *log)
{
	for (uint32_t i = 0; i < broker->times->count; i++)
		if (kept_at(broker->times, i)->log == log)
			kept_at(broker->times, i)->log = NULL;
}

uint32_t
stored_times_take(struct broker *broker, struct store_deadline *out, uint32_t max)
{
	struct stored_times *times = broker->times;
	uint32_t n = 0;

	stored_times_feed(broker);
	while (n < max && times->count > 0 && kept_at(times, 0)->time_ms <= broker->now.wall_ms) {
		if (kept_at(times, 0)->log != NULL)
			out[n++] = *kept_at(times, 0);
		times->first++;
		times->count--;
	}
	return n;
}

/* ---- taking in ---- */

/* Those up to this time, while there is room. One at a time: a body may be large. */
static void
take_until(struct broker *broker, uint64_t until_ms, uint64_t halves)
{
	struct stored_times *times = broker->times;
	struct store_deadline deadline;

	while (has_room(times, halves) && times->count < KEPT_MAX &&
	       store_take_deadlines(broker->store, until_ms, &deadline, 1) == 1) {
		struct queue *q = deadline.log->owner;

		if (q == NULL)
			continue;
		if (q->flags & QUEUE_WAITING)
			waiting_room_due(q, &deadline);
		else
			keep(times, &deadline);
	}
}

void
stored_times_feed(struct broker *broker)
{
	struct list_link *link;

	if (broker->store == NULL)
		return;
	take_until(broker, broker->now.wall_ms + AHEAD_MS, 2);
	take_until(broker, broker->now.wall_ms + NEAR_MS, 4);
	while ((link = list_pop(&broker->times->touched)) != NULL)
		waiting_room_ask(container_of(link, struct waiting_room, touched));
	broker_deadlines_changed(broker);
}

uint64_t
stored_times_next_ms(const struct broker *broker, bool kept)
{
	const struct stored_times *times = broker->times;
	uint64_t ahead_ms = has_room(times, 2) ? AHEAD_MS : NEAR_MS;
	uint64_t next_ms = UINT64_MAX;

	if (times->count < KEPT_MAX && has_room(times, 4))
		next_ms = store_next_deadline(broker->store);
	if (next_ms != UINT64_MAX)
		next_ms -= min_u64(next_ms, ahead_ms);
	return kept && times->count > 0 ? min_u64(next_ms, kept_at(times, 0)->time_ms) : next_ms;
}
