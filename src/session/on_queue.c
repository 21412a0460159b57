/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Class queue: the checks in RabbitMQ's order (amqp.md 6.1, 6.7), then the model. Binding
 * is in on_bind.c.
 */
#include "broker/exchange.h"
#include "handlers.h"

static const struct reply *
check(const struct channel *channel, enum permission permission, enum resource_kind kind,
      struct bytes name)
{
	return user_check(channel_user(channel), channel_vhost(channel), permission, kind, name);
}

static const struct reply *
refuse_missing(const struct channel *channel, struct bytes name)
{
	return refuse(NOT_FOUND, "no queue '%.*s' in vhost '%.*s'", BYTES_ARGS(name),
		      BYTES_ARGS(channel_vhost(channel)->name));
}

static void
answer_declare(struct channel *channel, struct queue *queue, bool nowait)
{
	queue_hand_out(queue);
	queue_used(queue);
	channel_set_last_queue(channel, queue->name);
	channel_answer(channel, nowait,
		       &(struct method){.id = METHOD_queue_declare_ok,
					.queue_declare_ok = {
						.queue = queue->name,
						.message_count = (uint32_t)min_u64(
							queue_message_count(queue), UINT32_MAX),
						.consumer_count = (uint32_t)queue->consumers.count,
					}});
}

/* Whoever asks for a pseudo-queue asks whether somebody waits for replies (amqp.md 7.12). */
static const struct reply *
declare_pseudo_queue(struct channel *channel, struct bytes name, bool nowait)
{
	if (!reply_exists(channel->connection->session, name))
		return refuse_missing(channel, name);
	channel_answer(channel, nowait,
		       &(struct method){.id = METHOD_queue_declare_ok,
					.queue_declare_ok = {.queue = name, .consumer_count = 1}});
	return NULL;
}

/* Any one permission will do (amqp.md 6.1). */
static const struct reply *
check_any(const struct channel *channel, struct bytes name)
{
	const struct reply *refusal = NULL;

	for (int permission = PERMISSION_COUNT; permission-- > 0;) {
		refusal = check(channel, (enum permission)permission, RESOURCE_QUEUE, name);
		if (refusal == NULL)
			return NULL;
	}
	return refusal;
}

static const struct reply *
declare_passive(struct channel *channel, struct bytes name, bool nowait)
{
	struct queue *queue = queue_find(channel_vhost(channel), name);
	const struct reply *refusal;

	if (queue == NULL)
		return refuse_missing(channel, name);
	refusal = check_any(channel, name);
	if (refusal == NULL)
		refusal = queue_check_access(queue, &channel->connection->owner);
	if (refusal == NULL)
		answer_declare(channel, queue, nowait);
	return refusal;
}

/* Who names a dead letter exchange needs rights on both ends. */
static const struct reply *
check_dead_letter(const struct channel *channel, const struct queue_spec *spec)
{
	struct field exchange;
	const struct reply *refusal;

	if (!table_find(spec->arguments, BYTES("x-dead-letter-exchange"), &exchange) ||
	    exchange.class != FIELD_STRING)
		return NULL;
	refusal = check(channel, PERMISSION_READ, RESOURCE_QUEUE, spec->name);
	if (refusal == NULL)
		refusal = check(channel, PERMISSION_WRITE, RESOURCE_EXCHANGE, exchange.bytes);
	return refusal;
}

/* Names that clients may not give, and queues that must have a name. */
static const struct reply *
check_name(const struct queue_spec *spec, bool named)
{
	struct field type;

	if (named)
		return name_check_reserved("queue", spec->name);
	if (table_find(spec->arguments, BYTES("x-queue-type"), &type) &&
	    type.class == FIELD_STRING && bytes_equal(type.bytes, BYTES("quorum")))
		return refuse(PRECONDITION_FAILED,
			      "Cannot declare a server-named queue for type rabbit_quorum_queue");
	return NULL;
}

static const struct reply *
declare_active(struct channel *channel, const struct queue_spec *spec, bool named, bool nowait)
{
	struct vhost *vhost = channel_vhost(channel);
	struct queue *queue;
	const struct reply *refusal = check_name(spec, named);

	if (refusal == NULL)
		refusal = check(channel, PERMISSION_CONFIGURE, RESOURCE_QUEUE, spec->name);
	if (refusal != NULL)
		return refusal;
	queue = queue_find(vhost, spec->name);
	if (queue != NULL) {
		refusal = queue_check_equivalent(queue, spec);
	} else {
		refusal = check_dead_letter(channel, spec);
		if (refusal == NULL)
			refusal = queue_check_new(vhost, spec);
		if (refusal == NULL)
			queue = queue_create(vhost, spec);
	}
	if (refusal == NULL)
		answer_declare(channel, queue, nowait);
	return refusal;
}

const struct reply *
on_queue_declare(struct channel *channel, const struct queue_declare *m)
{
	uint8_t cleaned[NAME_MAX_SIZE];
	char generated[NAME_GENERATED_SIZE];
	struct queue_spec spec = {
		.name = name_clean(m->queue, cleaned),
		.durable = m->durable,
		.exclusive = m->exclusive,
		.auto_delete = m->auto_delete,
		.owner = &channel->connection->owner,
		.arguments = m->arguments,
	};
	bool named = spec.name.n != 0;

	if (reply_is_pseudo_queue(spec.name))
		return declare_pseudo_queue(channel, spec.name, m->nowait);
	if (m->passive)
		return declare_passive(channel, spec.name, m->nowait);
	if (!named)
		spec.name = name_generate("amq.gen-", generated);
	return declare_active(channel, &spec, named, m->nowait);
}

const struct reply *
on_queue_purge(struct channel *channel, const struct queue_purge *m)
{
	struct bytes name = m->queue;
	struct queue *queue;
	uint64_t count;
	const struct reply *refusal = channel_queue_name(channel, &name);

	if (refusal == NULL)
		refusal = check(channel, PERMISSION_READ, RESOURCE_QUEUE, name);
	if (refusal != NULL)
		return refusal;
	queue = queue_need(channel_vhost(channel), name, &refusal);
	if (queue == NULL)
		return refusal;
	refusal = queue_check_access(queue, &channel->connection->owner);
	if (refusal != NULL)
		return refusal;
	queue_hand_out(queue);
	count = queue_purge(queue);
	channel_answer(channel, m->nowait,
		       &(struct method){.id = METHOD_queue_purge_ok,
					.queue_purge_ok = {(uint32_t)min_u64(count, UINT32_MAX)}});
	return NULL;
}

/* Whether the conditions of a delete hold: RabbitMQ looks at empty before unused (amqp.md 6.7). */
static const struct reply *
check_delete(const struct queue *queue, const struct queue_delete *m)
{
	const char *why = NULL;

	if (m->if_empty && queue_message_count(queue) > 0)
		why = "not empty";
	else if (m->if_unused && !list_empty(&queue->consumers))
		why = "in use";
	if (why == NULL)
		return NULL;
	return refuse(PRECONDITION_FAILED, "queue '%.*s' in vhost '%.*s' %s",
		      BYTES_ARGS(queue->name), BYTES_ARGS(queue->vhost->name), why);
}

const struct reply *
on_queue_delete(struct channel *channel, const struct queue_delete *m)
{
	uint8_t cleaned[NAME_MAX_SIZE];
	struct bytes name = name_clean(m->queue, cleaned);
	struct queue *queue;
	uint64_t count = 0;
	const struct reply *refusal = channel_queue_name(channel, &name);

	if (refusal == NULL)
		refusal = check(channel, PERMISSION_CONFIGURE, RESOURCE_QUEUE, name);
	if (refusal != NULL)
		return refusal;
	queue = queue_find(channel_vhost(channel), name);
	if (queue != NULL) {
		refusal = queue_check_access(queue, &channel->connection->owner);
		queue_hand_out(queue);
		if (refusal == NULL)
			refusal = check_delete(queue, m);
		if (refusal != NULL)
			return refusal;
		count = queue_delete(queue);
	}
	channel_answer(channel, m->nowait,
		       &(struct method){.id = METHOD_queue_delete_ok,
					.queue_delete_ok = {(uint32_t)min_u64(count, UINT32_MAX)}});
	return NULL;
}
