/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The root of the model: made, ended, and its part of the turn.
 */
#include "broker/broker.h"
#include "broker/durable.h"
#include "broker/exchange.h"
#include "broker/user.h"
#include "broker/vhost.h"
#include "internal.h"
#include "util/digest.h"
#include "waiting.h"

struct broker_options
broker_options_default(void)
{
	return (struct broker_options){
		.memory_limit = 0,
		.page_out_at = UINT64_MAX,
		.yield_high = 256 * 1024,
		.yield_low = 128 * 1024,
		.yield_ms = 1,
		.message_size_max = 16 * 1024 * 1024,
		.queue_max = UINT32_MAX,
		.exchange_max = UINT32_MAX,
		.consumer_max_per_channel = UINT32_MAX,
		.cache_size = 8 * 1024 * 1024,
	};
}

struct broker *
broker_new(struct deadlines *deadlines, const struct broker_options *options)
{
	struct broker *broker = xcalloc(1, sizeof(*broker));

	broker->options = *options;
	broker->deadlines = deadlines;
	random_bytes(&broker->random, sizeof(broker->random));
	map_init(&broker->vhosts);
	map_init(&broker->users);
	list_init(&broker->dirty);
	list_init(&broker->dead);
	list_init(&broker->gated);
	list_init(&broker->over);
	list_init(&broker->deduplicating);
	list_init(&broker->resident);
	broker->rest.run = cold_rest;
	broker->stored_due.run = deadlines_on_due;
	list_init(&broker->dying);
	list_init(&broker->pageable);
	broker->page_again.run = page_out_again;
	broker->times = stored_times_new();
	pool_init(&broker->consumers_pool, sizeof(struct consumer));
	return broker;
}

void
broker_free(struct broker **broker)
{
	struct broker *b = *broker;
	struct vhost *vhost;
	struct user *user;

	if (b == NULL)
		return;
	deadline_clear(b->deadlines, &b->rest);
	deadline_clear(b->deadlines, &b->stored_due);
	durable_leave(b);
	assert(b->paging_out == NULL);
	deadline_clear(b->deadlines, &b->page_again);
	map_for_each (&b->vhosts, vhost, struct vhost, node)
		vhost_delete(vhost);
	map_for_each (&b->users, user, struct user, node)
		user_delete(b, user);
	broker_reap(b);
	assert(list_empty(&b->dirty));
	assert(list_empty(&b->gated));
	assert(list_empty(&b->over));
	assert(list_empty(&b->deduplicating));
	assert(list_empty(&b->pageable));
	stored_times_free(&b->times);
	map_fini(&b->vhosts);
	map_fini(&b->users);
	pool_fini(&b->consumers_pool);
	xfree(b->unsettled);
	xfree(b);
	*broker = NULL;
}

void
broker_set_now(struct broker *broker, struct now now)
{
	broker->now = now;
}

void
broker_dispatch(struct broker *broker)
{
	struct list_link *link;

	assert(!broker->dispatching);
	while ((link = list_pop(&broker->dirty)) != NULL)
		queue_dispatch(container_of(link, struct queue, dirty));
}

void
broker_set_stable(struct broker *broker, uint64_t lsn)
{
	struct queue *q;

	assert(lsn >= broker->stable);
	broker->stable = lsn;
	unsettled_trim(broker);
	list_for_each_safe (&broker->gated, q, struct queue, gated) {
		if (q->gate_lsn > lsn)
			continue;
		list_remove(&broker->gated, &q->gated);
		queue_touch(q);
	}
}

void
broker_reap(struct broker *broker)
{
	struct list_link *link;

	while ((link = list_pop(&broker->dead)) != NULL)
		queue_free(container_of(link, struct queue, dirty));
}

static void
count_messages(void *context, struct queue *q)
{
	*(uint64_t *)context += own_message_count(q);
}

uint64_t
broker_message_count(const struct broker *broker)
{
	const struct vhost *vhost;
	const struct queue *q;
	uint64_t count = 0;

	map_for_each (&broker->vhosts, vhost, struct vhost, node) {
		map_for_each (&vhost->queues, q, struct queue, node)
			count += own_message_count(q);
		parts_each(vhost, count_messages, &count);
	}
	return count;
}

void
broker_check(const struct broker *broker)
{
	const struct vhost *vhost;
	const struct exchange *exchange;
	const struct queue *q;
	uint64_t queues = 0;
	uint64_t exchanges = 0;

	map_for_each (&broker->vhosts, vhost, struct vhost, node) {
		map_for_each (&vhost->exchanges, exchange, struct exchange, node)
			exchange_check(exchange);
		exchanges += vhost->exchanges.count;
		map_for_each (&vhost->queues, q, struct queue, node) {
			assert(!(q->flags & QUEUE_DELETED));
			queue_check(q);
			queues++;
		}
		policies_check(vhost);
	}
	assert(queues == broker->queue_count);
	assert(exchanges == broker->exchange_count);
}
