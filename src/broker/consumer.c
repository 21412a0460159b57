/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registration of consumers with their queues. A consumer is on queue->takers while it may take; it
 * leaves that list when it answers DELIVER_FULL and comes back by consumer_ready(). Where one alone is active
 * (single_active.c), the others are never on it.
 */
#include "broker/args.h"
#include "internal.h"
#include "util/owned.h"

const struct reply *
consumer_check(const struct queue *q, const struct consumer_spec *spec)
{
	int32_t priority;
	const struct reply *refusal = args_check_consumer(q, spec->arguments, &priority);

	if (refusal != NULL)
		return refusal;
	if (spec->global_limit && args_is_quorum(q->arguments))
		return refuse(NOT_IMPLEMENTED,
			      "queue '%.*s' in vhost '%.*s' does not support global qos",
			      BYTES_ARGS(q->name), BYTES_ARGS(q->vhost->name));
	if ((q->flags & QUEUE_EXCLUSIVE_CONSUMER) ||
	    (spec->exclusive && (queue_settings(q)->single_active || !list_empty(&q->consumers))))
		return refuse(ACCESS_REFUSED, "queue '%.*s' in vhost '%.*s' in exclusive use",
			      BYTES_ARGS(q->name), BYTES_ARGS(q->vhost->name));
	return NULL;
}

struct consumer *
consumer_new(struct queue *q, const struct consumer_spec *spec)
{
	struct consumer *consumer = pool_alloc(&q->vhost->broker->consumers_pool);
	int32_t priority = 0;
	const struct reply *refusal = args_check_consumer(q, spec->arguments, &priority);

	assert_not_dispatching(q->vhost->broker);
	assert(refusal == NULL);
	*consumer = (struct consumer){
		.ops = spec->ops,
		.queue = q,
		.from = q,
		.broker = q->vhost->broker,
		.channel = spec->channel,
		.tag = bytes_dup(spec->tag),
		.arguments = bytes_dup(spec->arguments),
		.prefetch = {.limit = spec->prefetch_limit},
		.timeout_ms = spec->timeout_ms,
		.priority = priority,
		.refs = 1,
		.no_ack = spec->no_ack,
		.exclusive = spec->exclusive,
	};
	list_append(&q->consumers, &consumer->of_queue);
	q->flags |= QUEUE_HAD_CONSUMER | (spec->exclusive ? QUEUE_EXCLUSIVE_CONSUMER : 0);
	queue_open_gate(q);
	single_active_joined(consumer);
	consumer_ready(consumer);
	return consumer;
}

void
consumer_cancel(struct consumer *consumer)
{
	struct queue *q = consumer->queue;
	enum consumer_turn turn = consumer->turn;

	assert_not_dispatching(consumer->broker);
	if (q == NULL)
		return;
	list_remove(&q->consumers, &consumer->of_queue);
	if (list_linked(&consumer->taker))
		list_remove(&q->takers, &consumer->taker);
	if (consumer->exclusive)
		q->flags &= ~(unsigned)QUEUE_EXCLUSIVE_CONSUMER;
	consumer->queue = NULL;
	consumer_unref(consumer);
	single_active_left(q, turn);
	if (list_empty(&q->consumers)) {
		queue_wake_yielders(q);
		if (q->flags & QUEUE_AUTO_DELETE)
			queue_delete(q);
		else
			queue_expiry_idle(q);
	}
}

void
consumer_ready(struct consumer *consumer)
{
	struct queue *q = consumer->queue;

	if (q == NULL || list_linked(&consumer->taker))
		return;
	if (unlikely(consumer->turn >= TURN_LEAVING)) {
		single_active_settled(consumer);
		return;
	}
	takers_insert(q, consumer);
	queue_touch(q);
}

void
consumer_unref(struct consumer *consumer)
{
	assert(consumer->refs > 0);
	if (--consumer->refs > 0)
		return;
	assert(consumer->queue == NULL);
	bytes_drop(&consumer->tag);
	bytes_drop(&consumer->arguments);
	pool_free(&consumer->broker->consumers_pool, consumer);
}
