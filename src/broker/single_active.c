/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One consumer at a time (amqp.md 6.11): on a queue with x-single-active-consumer the first consumer is
 * active, and the others wait. When it goes, the one with the highest x-priority takes over, of equals the one
 * that came first. A quorum queue does not leave it at that: a consumer of higher priority than the active one
 * takes its place as soon as that has settled all it holds, and until then it takes nothing more.
 *
 * Invariant: of the consumers of such a queue one is active or leaving, all others wait, and only the active
 * one may be a taker.
 */
#include "broker/args.h"
#include "internal.h"

/* The active one, or the one that leaves. There must be one. */
static struct consumer *
holder(const struct queue *q)
{
	struct consumer *consumer;

	list_for_each (&q->consumers, consumer, struct consumer, of_queue)
		if (consumer->turn != TURN_WAITING)
			return consumer;
	assert(!"a single active consumer");
	return NULL;
}

/* Whom it should be. There must be consumers. */
static struct consumer *
best(const struct queue *q)
{
	struct consumer *found = list_first(&q->consumers, struct consumer, of_queue);
	struct consumer *consumer;

	list_for_each (&q->consumers, consumer, struct consumer, of_queue)
		if (consumer->priority > found->priority)
			found = consumer;
	return found;
}

static void
give_turn(struct consumer *consumer)
{
	consumer->turn = TURN_ACTIVE;
	consumer_ready(consumer);
}

static void
take_turn(struct consumer *consumer, enum consumer_turn turn)
{
	consumer->turn = (uint8_t)turn;
	if (list_linked(&consumer->taker))
		list_remove(&consumer->queue->takers, &consumer->taker);
}

/* The consumers of a quorum queue are not who they were: whether the holder may stay. */
static void
compare(struct queue *q)
{
	struct consumer *now = holder(q);
	struct consumer *next = best(q);

	if (next->priority <= now->priority) {
		if (now->turn == TURN_LEAVING)
			give_turn(now);
	} else if (now->prefetch.used > 0) {
		take_turn(now, TURN_LEAVING);
	} else {
		take_turn(now, TURN_WAITING);
		give_turn(next);
	}
}

void
single_active_joined(struct consumer *consumer)
{
	struct queue *q = consumer->queue;

	if (!queue_settings(q)->single_active)
		return;
	consumer->turn = q->consumers.count == 1 ? TURN_ACTIVE : TURN_WAITING;
	if (consumer->turn == TURN_WAITING && args_is_quorum(q->arguments))
		compare(q);
}

void
single_active_left(struct queue *q, enum consumer_turn turn)
{
	if (turn == TURN_SHARED || list_empty(&q->consumers))
		return;
	if (turn != TURN_WAITING)
		give_turn(best(q));
	else if (args_is_quorum(q->arguments))
		compare(q);
}

void
single_active_settled(struct consumer *consumer)
{
	if (consumer->turn == TURN_LEAVING && consumer->prefetch.used == 0)
		compare(consumer->queue);
}

const struct reply *
queue_check_get(const struct queue *q)
{
	if (!queue_settings(q)->single_active || !args_is_quorum(q->arguments))
		return NULL;
	return refuse(RESOURCE_LOCKED,
		      "cannot obtain access to locked queue '%.*s' in vhost '%.*s'. basic.get "
		      "operations are not supported by quorum queues with single active consumer",
		      BYTES_ARGS(q->name), BYTES_ARGS(q->vhost->name));
}

void
single_active_check(const struct queue *q)
{
	const struct consumer *consumer;
	size_t holders = 0;

	list_for_each (&q->consumers, consumer, struct consumer, of_queue) {
		assert((consumer->turn != TURN_SHARED) == queue_settings(q)->single_active);
		holders += consumer->turn != TURN_WAITING;
		assert(consumer->turn < TURN_LEAVING || !list_linked(&consumer->taker));
	}
	if (queue_settings(q)->single_active)
		assert(holders == !list_empty(&q->consumers));
}
