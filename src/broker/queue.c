/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a queue: found, declared, purged, deleted (amqp.md 6). A deleted queue leaves its vhost at
 * once and is freed at the end of a turn, when no unacked entry refers to it any more.
 */
#include "broker/args.h"
#include "broker/binding.h"
#include "broker/durable.h"
#include "broker/limits.h"
#include "internal.h"
#include "keys.h"
#include "store/store.h"
#include "util/owned.h"
#include "waiting.h"

struct queue *
queue_find(const struct vhost *vhost, struct bytes name)
{
	struct map_node *node = map_find(&vhost->queues, name);

	return node == NULL ? NULL : container_of(node, struct queue, node);
}

struct queue *
queue_need(const struct vhost *vhost, struct bytes name, const struct reply **refusal)
{
	struct queue *q = queue_find(vhost, name);

	if (q == NULL)
		*refusal = refuse(NOT_FOUND, "no queue '%.*s' in vhost '%.*s'", BYTES_ARGS(name),
				  BYTES_ARGS(vhost->name));
	return q;
}

static const struct reply *
refuse_locked(const struct queue *q)
{
	return refuse(
		RESOURCE_LOCKED,
		"cannot obtain exclusive access to locked queue '%.*s' in vhost '%.*s'. It "
		"could be originally declared on another connection or the exclusive property "
		"value does not match that of the original declaration.",
		BYTES_ARGS(q->name), BYTES_ARGS(q->vhost->name));
}

const struct reply *
queue_check_access(const struct queue *q, const struct queue_owner *owner)
{
	if (q->owner != NULL && q->owner != owner)
		return refuse_locked(q);
	return NULL;
}

static const struct reply *
check_flag(const struct queue *q, const char *name, bool received, bool current)
{
	if (received == current)
		return NULL;
	return refuse(PRECONDITION_FAILED,
		      "inequivalent arg '%s' for queue '%.*s' in vhost '%.*s': received '%s' but "
		      "current is '%s'",
		      name, BYTES_ARGS(q->name), BYTES_ARGS(q->vhost->name),
		      received ? "true" : "false", current ? "true" : "false");
}

const struct reply *
queue_check_equivalent(const struct queue *q, const struct queue_spec *spec)
{
	const struct reply *refusal;

	if (q->owner != (spec->exclusive ? spec->owner : NULL))
		return refuse_locked(q);
	refusal = check_flag(q, "durable", spec->durable && !spec->exclusive,
			     (q->flags & QUEUE_DURABLE) != 0);
	if (refusal == NULL)
		refusal = check_flag(q, "auto_delete", spec->auto_delete,
				     (q->flags & QUEUE_AUTO_DELETE) != 0);
	if (refusal == NULL)
		refusal = args_check_equivalent(q, spec->arguments);
	return refusal;
}

const struct reply *
queue_check_new(const struct vhost *vhost, const struct queue_spec *spec)
{
	const struct reply *refusal =
		args_check_queue(vhost, spec->name, spec->arguments, spec->durable, spec->exclusive,
				 spec->auto_delete);

	return refusal != NULL ? refusal : limits_check_queue(vhost, spec->name);
}

struct queue *
queue_new(struct vhost *vhost, struct bytes name, struct bytes arguments, unsigned flags)
{
	struct queue *q = slab_alloc(sizeof(*q));

	*q = (struct queue){
		.name = bytes_dup(name),
		.vhost = vhost,
		.arguments = bytes_dup(arguments),
		.refs = 1,
		.flags = flags,
		.next_qseq = 1,
	};
	list_init(&q->bindings);
	list_init(&q->consumers);
	list_init(&q->takers);
	list_init(&q->yielders);
	return q;
}

struct queue *
queue_create(struct vhost *vhost, const struct queue_spec *spec)
{
	struct queue *q = queue_new(vhost, spec->name, spec->arguments,
				    (spec->durable && !spec->exclusive ? QUEUE_DURABLE : 0) |
					    (spec->exclusive ? QUEUE_EXCLUSIVE : 0) |
					    (spec->auto_delete ? QUEUE_AUTO_DELETE : 0));
	const struct policy *policies[POLICY_KIND_COUNT];

	assert_not_dispatching(vhost->broker);
	if (spec->exclusive) {
		q->owner = spec->owner;
		list_append(&spec->owner->queues, &q->of_owner);
	}
	policies_of_queue(q, policies);
	queue_settings_make(q, policies);
	map_insert(&vhost->queues, &q->node, q->name);
	vhost->broker->queue_count++;
	vhost->routing_version++; // the default exchange has one more key
	if (q->flags & QUEUE_DURABLE)
		durable_queue_made(q);
	args_warn_without_effect(vhost, q->name, q->arguments);
	return q;
}

static void
cancel_consumers(struct queue *q)
{
	struct list_link *link;

	while ((link = list_pop(&q->consumers)) != NULL) {
		struct consumer *consumer = container_of(link, struct consumer, of_queue);

		if (list_linked(&consumer->taker))
			list_remove(&q->takers, &consumer->taker);
		consumer->queue = NULL;
		consumer->ops->cancelled(consumer);
		consumer_unref(consumer);
	}
}

void
queue_end(struct queue *q)
{
	assert(!(q->flags & QUEUE_DELETED));
	q->flags |= QUEUE_DELETED;
	life_stop(q);
	if (q->flags & QUEUE_WAITING)
		waiting_room_end(q);
	if (q->log != NULL) {
		stored_times_forget(q->vhost->broker, q->log);
		durable_queue_gone(q);
		store_queue_drop(q->vhost->broker->store, &q->log);
	}
	cold_clear(q, ACK_PURGED);
	window_clear(q, ACK_PURGED);
	groups_end(q);
	page_cleared(q);
	queue_wake_yielders(q);
	queue_unref(q);
}

uint64_t
queue_delete(struct queue *q)
{
	struct vhost *vhost = q->vhost;
	uint64_t ready = queue_message_count(q);

	assert_not_dispatching(vhost->broker);
	assert(!(q->flags & QUEUE_PART));
	parts_of_queue_delete(q);
	map_remove(&vhost->queues, &q->node);
	vhost->broker->queue_count--;
	vhost->routing_version++;
	if (q->owner != NULL) {
		list_remove(&q->owner->queues, &q->of_owner);
		q->owner = NULL;
	}
	queue_settings_leave(q);
	queue_expiry_drop(q);
	binding_remove_all_of_queue(q);
	cancel_consumers(q);
	queue_end(q);
	return ready;
}

static void
purge(void *context, struct queue *q)
{
	(void)context;
	window_clear(q, ACK_PURGED);
	cold_clear(q, ACK_PURGED);
	page_cleared(q);
}

uint64_t
queue_purge(struct queue *q)
{
	uint64_t ready = queue_message_count(q);

	assert_not_dispatching(q->vhost->broker);
	purge(NULL, q);
	if (q->flags & QUEUE_PRIORITIES)
		levels_each(q, purge, NULL);
	queue_wake_yielders(q);
	return ready;
}

void
queue_owner_init(struct queue_owner *owner)
{
	list_init(&owner->queues);
}

void
queue_owner_fini(struct queue_owner *owner)
{
	struct queue *q;

	while ((q = list_first(&owner->queues, struct queue, of_owner)) != NULL)
		queue_delete(q);
}

void
queue_unref(struct queue *q)
{
	struct broker *broker = q->vhost->broker;

	assert(q->refs > 0);
	if (--q->refs > 0)
		return;
	assert(q->flags & QUEUE_DELETED);
	if (list_linked(&q->dirty))
		list_remove(&broker->dirty, &q->dirty);
	if (list_linked(&q->gated))
		list_remove(&broker->gated, &q->gated);
	list_append(&broker->dead, &q->dirty);
}

void
queue_free(struct queue *q)
{
	assert(q->refs == 0);
	assert(q->ready_count == 0);
	assert(q->unacked_count == 0);
	assert(list_empty(&q->consumers));
	assert(list_empty(&q->bindings));
	page_fini(q);
	bytes_drop(&q->name);
	bytes_drop(&q->arguments);
	queue_settings_end(q);
	slab_free(q, sizeof(*q));
}

void
queue_check(const struct queue *q)
{
	const struct consumer *consumer;
	size_t takers = 0;
	int32_t priority = INT32_MAX;

	window_check(q);
	cold_check(q);
	page_check(q);
	groups_check(q);
	list_for_each (&q->consumers, consumer, struct consumer, of_queue) {
		assert(consumer->queue == q);
		takers += list_linked(&consumer->taker);
	}
	assert(takers == q->takers.count);
	list_for_each (&q->takers, consumer, struct consumer, taker) {
		assert(consumer->priority <= priority);
		priority = consumer->priority;
	}
	single_active_check(q);
	waiting_room_check(q);
	if (q->life != NULL) {
		parts_check(&q->life->parts, q, NULL);
		keys_check(q->life->deduplication);
	}
	if (q->flags & QUEUE_PRIORITIES)
		levels_check(q);
	assert((q->owner != NULL) <= ((q->flags & QUEUE_EXCLUSIVE) != 0));
}
