/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues that are part of something: of a queue (its levels of priority), or of a queue or an exchange (where
 * messages wait for their time). A part is a queue with a window, a log and limits like any other, but it has its
 * owner's name, and is in no table, so no client finds it and no limit counts it. It is made when its first message
 * comes and goes with its owner. Each owner has at most one of each number.
 *
 * In the store a part is a queue whose definition says whose it is (durable.c). It is defined before its first message
 * and removed before its owner, in the same unit, so that after a crash there is no message whose part is not known,
 * and no part without its owner.
 */
#include "broker/durable.h"
#include "internal.h"
#include "waiting.h"

static const struct list *
parts_of(struct part_owner owner)
{
	if (owner.exchange != NULL)
		return &owner.exchange->parts;
	return owner.queue->life == NULL ? NULL : &owner.queue->life->parts;
}

struct queue *
part_find(struct part_owner owner, uint32_t number)
{
	const struct list *parts = parts_of(owner);
	const struct queue_part *part;

	if (parts == NULL)
		return NULL;
	list_for_each (parts, part, struct queue_part, of_owner)
		if (part->number == number)
			return part->queue;
	return NULL;
}

/* What a level has in common with its queue. */
static void
set_level(struct queue *level, struct queue *owner)
{
	const unsigned exact = QUEUE_COUNTS | QUEUE_LIMITED | QUEUE_HOLDS_KEYS | QUEUE_RETRIES;

	/* some messages may have limits of their own, so QUEUE_TTL stays */
	level->flags = (level->flags & ~exact) | (owner->flags & (exact | QUEUE_TTL));
	level->own_settings = owner->own_settings;
}

void
parts_set(struct queue *owner)
{
	struct queue_part *part;

	if (owner->life == NULL)
		return;
	list_for_each (&owner->life->parts, part, struct queue_part, of_owner)
		if (part->number < PART_LEVELS)
			set_level(part->queue, owner);
}

static unsigned
flags_of(struct part_owner owner)
{
	bool durable = owner.queue != NULL
			       ? (owner.queue->flags & QUEUE_DURABLE) != 0
			       : owner.exchange->durable && !owner.exchange->predeclared;

	return QUEUE_PART | (durable ? QUEUE_DURABLE : 0) |
	       (owner.queue != NULL ? owner.queue->flags & QUEUE_HOLDS_KEYS : 0);
}

struct queue *
part_create(struct part_owner owner, uint32_t number)
{
	struct vhost *vhost = owner.queue != NULL ? owner.queue->vhost : owner.exchange->vhost;
	struct bytes name = owner.queue != NULL ? owner.queue->name : owner.exchange->name;
	struct queue *q = queue_new(vhost, name, bytes_of(NULL, 0), flags_of(owner));
	struct queue_part *part = slab_alloc(sizeof(*part));

	assert_thread(THREAD_BROKER);
	assert((owner.queue != NULL) != (owner.exchange != NULL));
	assert(part_find(owner, number) == NULL);
	*part = (struct queue_part){
		.queue = q,
		.of_queue = owner.queue,
		.of_exchange = owner.exchange,
		.number = number,
	};
	life_need(q);
	q->life->part = part;
	if (owner.queue != NULL)
		life_need(owner.queue);
	list_append(owner.queue != NULL ? &owner.queue->life->parts : &owner.exchange->parts,
		    &part->of_owner);
	if (number == PART_ROOM)
		waiting_room_begin(q);
	durable_queue_made(q);
	if (owner.queue != NULL && number < PART_LEVELS) {
		q->flags |= QUEUE_LEVEL;
		set_level(q, owner.queue);
		levels_joined(q);
	}
	return q;
}

void
part_delete(struct queue *q)
{
	struct queue_part *part = q->life->part;

	assert_not_dispatching(q->vhost->broker);
	assert(list_empty(&q->consumers));
	if (q->flags & QUEUE_LEVEL)
		levels_left(q);
	/* unacked entries may keep it, but not what its owner lends */
	q->own_settings = NULL;
	queue_end(q);
	list_remove(part->of_queue != NULL ? &part->of_queue->life->parts
					   : &part->of_exchange->parts,
		    &part->of_owner);
	q->life->part = NULL;
	slab_free(part, sizeof(*part));
}

void
parts_delete(struct list *parts)
{
	struct queue_part *part;

	while ((part = list_first(parts, struct queue_part, of_owner)) != NULL)
		part_delete(part->queue);
}

void
parts_of_queue_delete(struct queue *q)
{
	if (q->life == NULL)
		return;
	levels_end(q);
	parts_delete(&q->life->parts);
}

void
parts_each(const struct vhost *vhost, void (*each)(void *context, struct queue *part),
	   void *context)
{
	const struct exchange *exchange;
	const struct queue *q;
	const struct queue_part *part;

	map_for_each (&vhost->exchanges, exchange, struct exchange, node)
		list_for_each (&exchange->parts, part, struct queue_part, of_owner)
			each(context, part->queue);
	map_for_each (&vhost->queues, q, struct queue, node)
		if (q->life != NULL)
			list_for_each (&q->life->parts, part, struct queue_part, of_owner)
				each(context, part->queue);
}

static struct part_owner
owner_of(const struct queue_part *part)
{
	return (struct part_owner){part->of_queue, part->of_exchange};
}

void
parts_check(const struct list *parts, const struct queue *queue, const struct exchange *exchange)
{
	const struct queue_part *part;

	list_for_each (parts, part, struct queue_part, of_owner) {
		const struct queue *q = part->queue;

		assert((q->flags & (QUEUE_PART | QUEUE_DELETED)) == QUEUE_PART);
		assert(q->life->part == part);
		assert(part->of_queue == queue);
		assert(part->of_exchange == exchange);
		assert(part_find(owner_of(part), part->number) == q);
		assert(queue == NULL || part->number >= PART_LEVELS ||
		       q->own_settings == queue->own_settings);
		queue_check(q);
	}
}
