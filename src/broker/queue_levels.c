/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Priorities (amqp.md 6.10). A queue with x-max-priority has a level for each priority that a message came with: level
 * 0 is the queue itself, each other one a part of it (queue_part.c), made when its first message comes. Clients know
 * of the queue alone: it has the consumers, the limits and the gate, and counts for all levels. A level has what a
 * queue has of messages: window, cold part, stubs, deadlines. So an unacked entry is of its level, and goes back
 * there.
 *
 * What is next is always on the highest level that has anything, whether that is at hand or not (levels_top()): the
 * dispatch, basic.get and the limits work from there.
 *
 * Invariants: levels above `top` are empty or not there; a level is set as its queue is.
 */
#include "internal.h"
#include "store/store.h"

struct queue_levels {
	uint32_t top;	    // the highest level that may have messages
	uint32_t max;	    // x-max-priority
	struct queue *at[]; // borrows; max + 1 of them; NULL: not there; at[0] is the queue itself
};

static size_t
levels_size(uint32_t max)
{
	return sizeof(struct queue_levels) + (max + 1) * sizeof(struct queue *);
}

static struct queue_levels *
levels_make(struct queue *q)
{
	uint32_t max = queue_settings(q)->priority_max;
	struct queue_levels *levels = slab_alloc(levels_size(max));

	memset(levels, 0, levels_size(max));
	levels->max = max;
	levels->at[0] = q;
	return levels;
}

void
levels_joined(struct queue *level)
{
	struct queue *q = level->life->part->of_queue;
	uint32_t number = level->life->part->number;

	/* others have no use for it */
	if (!(q->flags & QUEUE_PRIORITIES) || number > queue_settings(q)->priority_max)
		return;
	assert(number > 0);
	if (q->life->levels == NULL)
		q->life->levels = levels_make(q);
	assert(q->life->levels->at[number] == NULL);
	q->life->levels->at[number] = level;
	/* read back, it may have messages */
	q->life->levels->top = (uint32_t)max_u64(q->life->levels->top, number);
	if (q->log != NULL && q->log->delivered)
		queue_open_gate_of(level, q);
}

void
levels_left(struct queue *level)
{
	const struct queue_part *part = level->life->part;
	struct queue_levels *levels = part->of_queue->life->levels;

	if (levels != NULL && part->number <= levels->max)
		levels->at[part->number] = NULL;
}

void
levels_end(struct queue *q)
{
	if (q->life->levels == NULL)
		return;
	slab_free(q->life->levels, levels_size(q->life->levels->max));
	q->life->levels = NULL;
}

struct queue *
levels_top(const struct queue *q)
{
	struct queue_levels *levels = q->life->levels;

	if (levels == NULL)
		return q->life->queue;
	while (levels->top > 0 &&
	       (levels->at[levels->top] == NULL || own_message_count(levels->at[levels->top]) == 0))
		levels->top--;
	return levels->at[levels->top];
}

void
levels_touch(struct queue *level)
{
	struct queue *q = queue_whole(level);

	if (q != level && q->life->levels != NULL)
		q->life->levels->top =
			(uint32_t)max_u64(q->life->levels->top, level->life->part->number);
	if (!(q->flags & QUEUE_LEVEL))
		queue_touch(q);
}

/* ---- publishing ---- */

/* Where a message of this priority goes. */
static struct queue *
level_for(struct queue *q, uint8_t priority)
{
	uint8_t number = (uint8_t)min_u64(priority, queue_settings(q)->priority_max);

	if (number == 0)
		return q;
	if (q->life->levels == NULL || q->life->levels->at[number] == NULL)
		return part_create((struct part_owner){.queue = q}, number);
	return q->life->levels->at[number];
}

void
levels_choose(struct route *route, const struct message *message)
{
	for (uint32_t i = 0; i < route->count; i++)
		if (route->queues[i]->flags & QUEUE_PRIORITIES)
			route->queues[i] = level_for(route->queues[i], message_priority(message));
}

NEVER_INLINE struct publish_result
levels_publish(struct broker *broker, const struct route *route, struct message *message)
{
	struct queue *few[8];
	struct route levels = {.queues = few, .count = route->count, .room = route->count};
	struct publish_result result;

	if (route->count > countof(few))
		levels.queues = xmalloc(route->count * sizeof(struct queue *));
	memcpy(levels.queues, route->queues, route->count * sizeof(struct queue *));
	levels_choose(&levels, message);
	result = queue_publish_admitted(broker, &levels, message);
	for (uint32_t i = 0; i < levels.count; i++)
		if (levels.queues[i]->flags & QUEUE_LEVEL)
			levels_touch(levels.queues[i]);
	if (levels.queues != few)
		xfree(levels.queues);
	return result;
}

/* ---- all of them ---- */

void
levels_each(const struct queue *q, void (*each)(void *context, struct queue *level), void *context)
{
	const struct queue_levels *levels = q->life->levels;

	for (uint32_t i = 1; levels != NULL && i <= levels->max; i++)
		if (levels->at[i] != NULL)
			each(context, levels->at[i]);
}

static void
add_up(const struct queue *level, struct level_sums *sums)
{
	sums->count += own_message_count(level);
	sums->octets += own_octets(level);
	sums->waiting += level->ready_bytes + (level->log == NULL ? 0 : level->log->cold_octets);
}

struct level_sums
levels_sums(const struct queue *q)
{
	const struct queue_levels *levels = q->life->levels;
	struct level_sums sums = {0};

	/* above there is nothing */
	for (uint32_t i = 1; levels != NULL && i <= levels->top; i++)
		if (levels->at[i] != NULL)
			add_up(levels->at[i], &sums);
	return sums;
}

static void
add_unacked(void *context, struct queue *level)
{
	*(uint64_t *)context += level->unacked_count;
}

uint64_t
queue_unacked_count(const struct queue *q)
{
	uint64_t count = q->unacked_count;

	if (q->flags & QUEUE_PRIORITIES)
		levels_each(q, add_unacked, &count);
	return count;
}

void
levels_check(const struct queue *q)
{
	const struct queue_levels *levels = q->life->levels;

	if (levels == NULL)
		return;
	assert(levels->at[0] == q);
	assert(levels->max == queue_settings(q)->priority_max);
	for (uint32_t i = 1; i <= levels->max; i++) {
		const struct queue *level = levels->at[i];

		if (level == NULL)
			continue;
		assert(level->life->part->number == i);
		assert(level->life->part->of_queue == q);
		assert((level->flags & QUEUE_LIMITED) == (q->flags & QUEUE_LIMITED));
		assert(i <= levels->top || own_message_count(level) == 0);
	}
}
