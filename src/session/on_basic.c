/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Class basic but for publish: qos, consumers, get, acknowledgements, recovery; and confirm.select
 * (amqp.md 7, 8.1).
 */
#include "handlers.h"

const struct reply *
on_basic_qos(struct channel *channel, const struct basic_qos *m)
{
	struct consumer *consumer;

	if (m->prefetch_size != 0)
		return refuse(NOT_IMPLEMENTED, "prefetch_size!=0 (%u)", m->prefetch_size);
	/* before the deliveries that it enables; those come at the end of the turn */
	channel_send(channel, &(struct method){.id = METHOD_basic_qos_ok});
	if (m->global) {
		settle_set_global_prefetch(channel, m->prefetch_count);
		return NULL;
	}
	channel->consumer_prefetch = m->prefetch_count;
	settle_set_global_prefetch(channel, 0);
	if (!(channel->connection->quirks & QUIRK_QOS_LIVE))
		return NULL;
	map_for_each (&channel->consumers, consumer, struct consumer, by_tag) {
		consumer->prefetch.limit = m->prefetch_count;
		if (prefetch_has_room(&consumer->prefetch))
			consumer_ready(consumer);
	}
	return NULL;
}

static struct consumer *
find_consumer(const struct channel *channel, struct bytes tag)
{
	struct map_node *node = map_find(&channel->consumers, tag);

	return node == NULL ? NULL : container_of(node, struct consumer, by_tag);
}

/* Resolves the queue of consume and get: name, permission, existence, exclusivity. */
static const struct reply *
readable_queue(struct channel *channel, struct bytes name, struct queue **queue)
{
	const struct reply *refusal = channel_queue_name(channel, &name);

	if (refusal == NULL)
		refusal = user_check(channel_user(channel), channel_vhost(channel), PERMISSION_READ,
				     RESOURCE_QUEUE, name);
	if (refusal != NULL)
		return refusal;
	*queue = queue_need(channel_vhost(channel), name, &refusal);
	if (*queue == NULL)
		return refusal;
	return queue_check_access(*queue, &channel->connection->owner);
}

static const struct reply *
check_consumer_count(const struct channel *channel)
{
	uint32_t limit = channel_broker(channel)->options.consumer_max_per_channel;

	if (channel->consumers.count < limit)
		return NULL;
	return refuse(NOT_ALLOWED, "reached maximum (%u) of consumers per channel", limit);
}

const struct reply *
on_basic_consume(struct channel *channel, const struct basic_consume *m)
{
	struct consumer_spec spec = {
		.tag = m->consumer_tag,
		.arguments = m->arguments,
		.no_ack = m->no_ack,
		.exclusive = m->exclusive,
		.prefetch_limit = channel->consumer_prefetch,
		.global_limit = channel->prefetch.limit != 0,
		.ops = &session_consumer_ops,
		.channel = channel,
	};
	char generated[NAME_GENERATED_SIZE];
	struct queue *queue;
	struct consumer *consumer;
	const struct reply *refusal = check_consumer_count(channel);

	if (refusal != NULL)
		return refusal;
	if (spec.tag.n != 0 && find_consumer(channel, spec.tag) != NULL)
		return refuse(NOT_ALLOWED, "attempt to reuse consumer tag '%.*s'",
			      BYTES_ARGS(spec.tag));
	if (bytes_equal(m->queue, BYTES(REPLY_TO_QUEUE)))
		return reply_consume(channel, m);
	refusal = readable_queue(channel, m->queue, &queue);
	if (refusal == NULL)
		refusal = consumer_check(queue, &spec);
	if (refusal != NULL)
		return refusal;
	/* messages that may not wait at all would not wait for that either */
	if (unlikely(queue_settings(queue)->ttl_ms == 0) && !queue_may_deliver(queue)) {
		connection_hold_frame(channel->connection, queue->gate_lsn);
		return NULL;
	}
	if (spec.tag.n == 0)
		spec.tag = name_generate("amq.ctag-", generated);
	queue_hand_out(queue); // what came before it is for the others
	spec.timeout_ms = ack_timeout_of(channel->connection->session, m->arguments);
	if (!spec.no_ack && spec.timeout_ms != UINT64_MAX)
		ack_timeout_watch(channel);
	consumer = consumer_new(queue, &spec);
	channel_add_consumer(channel, consumer);
	if (!m->nowait)
		channel_send(channel, &(struct method){.id = METHOD_basic_consume_ok,
						       .basic_consume_ok = {spec.tag}});
	return NULL;
}

const struct reply *
on_basic_cancel(struct channel *channel, const struct basic_cancel *m)
{
	struct consumer *consumer = find_consumer(channel, m->consumer_tag);

	if (consumer != NULL)
		queue_hand_out(consumer->queue); // what came before it went is its own
	if (!m->nowait)
		channel_send(channel, &(struct method){.id = METHOD_basic_cancel_ok,
						       .basic_cancel_ok = {m->consumer_tag}});
	if (consumer != NULL)
		channel_remove_consumer(channel, consumer);
	else if (channel->reply != NULL && bytes_equal(channel->reply->tag, m->consumer_tag))
		reply_end(channel);
	return NULL;
}

const struct reply *
on_basic_cancel_ok(struct channel *channel, const struct basic_cancel_ok *m)
{
	(void)channel;
	(void)m;
	return NULL;
}

const struct reply *
on_basic_get(struct channel *channel, const struct basic_get *m)
{
	struct unacked_slot *slot;
	struct queue *queue;
	struct queue *from;
	struct entry entry;
	const struct reply *refusal = readable_queue(channel, m->queue, &queue);
	uint64_t tag;

	if (refusal == NULL)
		refusal = queue_check_get(queue);
	if (refusal != NULL)
		return refusal;
	if (!queue_may_deliver(queue)) {
		connection_hold_frame(channel->connection, queue->gate_lsn);
		return NULL;
	}
	queue_hand_out(queue); // what a waiting consumer gets is not there to be got
	if (queue_must_read(queue)) {
		queue_refill(queue);
		connection_hold_for_read(channel->connection, queue);
		return NULL;
	}
	from = queue_get(queue, m->no_ack, &entry);
	if (from == NULL) {
		channel_send(channel, &(struct method){.id = METHOD_basic_get_empty});
		return NULL;
	}
	tag = channel->next_tag++;
	deliver_get_ok(channel, &entry, tag, queue_message_count(queue));
	if (m->no_ack) {
		message_unref(entry.message);
		return NULL;
	}
	slot = unacked_add(&channel->unacked, tag);
	*slot = (struct unacked_slot){.tag = tag, .entry = entry, .queue = queue_ref(from)};
	ack_timeout_note(channel, slot);
	return NULL;
}

const struct reply *
on_basic_ack(struct channel *channel, const struct basic_ack *m)
{
	return settle_tags(channel, m->delivery_tag, m->multiple, SETTLE_ACK);
}

const struct reply *
on_basic_nack(struct channel *channel, const struct basic_nack *m)
{
	return settle_tags(channel, m->delivery_tag, m->multiple,
			   m->requeue ? SETTLE_FAIL : SETTLE_REJECT);
}

const struct reply *
on_basic_reject(struct channel *channel, const struct basic_reject *m)
{
	return settle_tags(channel, m->delivery_tag, false,
			   m->requeue ? SETTLE_FAIL : SETTLE_REJECT);
}

const struct reply *
on_basic_recover(struct channel *channel, const struct basic_recover *m)
{
	if (!m->requeue)
		return refuse(NOT_IMPLEMENTED, "requeue=false");
	/* before the redeliveries; those come at the end of the turn */
	channel_send(channel, &(struct method){.id = METHOD_basic_recover_ok});
	settle_recover(channel);
	return NULL;
}

const struct reply *
on_basic_recover_async(struct channel *channel, const struct basic_recover_async *m)
{
	if (!m->requeue)
		return refuse(NOT_IMPLEMENTED, "requeue=false");
	settle_recover(channel);
	return NULL;
}

const struct reply *
on_confirm_select(struct channel *channel, const struct confirm_select *m)
{
	if (channel->tx != NULL)
		return refuse(PRECONDITION_FAILED, "cannot switch from tx to confirm mode");
	channel->confirm.on = true;
	if (!m->nowait)
		channel_send(channel, &(struct method){.id = METHOD_confirm_select_ok});
	return NULL;
}
